//! Pages and their order.

use proptest::prelude::*;

use super::*;

fn id(number: u32) -> Id {
    let mut bytes = [0; 12];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    Id(bytes)
}

fn ids(count: u32) -> Vec<Id> {
    (0..count).map(id).collect()
}

/// Runs a grid to its end; gives its pairs.
fn run(mut grid: Grid, roots: &[Id], scions: &[Id]) -> Vec<(Id, Id)> {
    let (mut roots, mut scions) = (roots.iter().copied(), scions.iter().copied());
    let mut pairs = Vec::new();
    loop {
        match grid.step() {
            Step::Pair { root, scion } => pairs.push((root, scion)),
            Step::NeedRoot => grid.add_root(roots.next()),
            Step::NeedScion => grid.add_scion(scions.next()),
            Step::End => return pairs,
        }
    }
}

#[test]
fn rootstocks_are_outside_and_scions_inside() {
    let pairs = run(Grid::new(), &ids(2), &ids(3));
    assert_eq!(pairs, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)].map(|(r, s)| (id(r), id(s))));
}

#[test]
fn an_empty_side_gives_nothing() {
    assert_eq!(run(Grid::new(), &[], &ids(3)), []);
    assert_eq!(run(Grid::new(), &ids(3), &[]), []);
    assert_eq!(run(Grid::resumed(id(0)), &ids(3), &[]), []);
}

#[test]
fn the_first_pair_is_there_before_the_second_page() {
    let mut grid = Grid::new();
    assert_eq!(grid.step(), Step::NeedRoot);
    grid.add_root(Some(id(1)));
    assert_eq!(grid.step(), Step::NeedScion);
    grid.add_scion(Some(id(2)));
    assert_eq!(grid.step(), Step::Pair { root: id(1), scion: id(2) });
    assert_eq!((grid.step(), grid.scions()), (Step::NeedScion, None));
    grid.add_scion(None);
    assert_eq!((grid.step(), grid.scions()), (Step::NeedRoot, Some(&[id(2)][..])));
}

#[test]
fn a_row_that_was_to_begin_behind_the_last_scion_is_over() {
    assert_eq!(run(Grid::resumed(id(9)), &ids(2), &ids(1)), [(id(1), id(0))]);
}

#[test]
fn the_rest_begins_with_the_next_pair() {
    let (root, scion) = (id(1), id(2));
    assert_eq!(rest_before(Step::Pair { root, scion }), Rest::From { root, scion });
    assert_eq!(rest_before(Step::End), Rest::Nothing);
}

#[test]
fn kept_pages_are_used_while_the_set_is_the_same() {
    let set = Set::Scion { tcn: 3 };
    let census = Census { count: 3, greatest: Some(id(2)) };
    let mut kept = KeptPages::default();
    kept.keep(set, 2, census, ids(2).into());
    assert_eq!(kept.get(set, 2, census).as_deref(), Some(&ids(2)[..]));
    assert_eq!(kept.get(set, 3, census), None);
    assert_eq!(kept.get(Set::Rootstock { tcn: 3 }, 2, census), None);
    assert_eq!(kept.get(set, 2, Census { count: 4, ..census }), None, "inserted in between");
    assert_eq!(kept.get(set, 2, Census { greatest: Some(id(3)), ..census }), None, "one went, one came");
    kept.keep(set, 2, Census { count: 5, ..census }, ids(2).into());
    assert!(kept.get(set, 2, census).is_some(), "a walk that saw the set change is not kept");
}

#[test]
fn what_is_kept_is_bounded() {
    let mut kept = KeptPages::default();
    let census = Census { count: KeptPages::IDS_MAX as u64, greatest: None };
    let list: Arc<[Id]> = ids(KeptPages::IDS_MAX as u32).into();
    for tcn in 0..3 {
        kept.keep(Set::Rootstock { tcn }, 1, census, list.clone());
    }
    assert_eq!((kept.lists.len(), kept.ids), (1, KeptPages::IDS_MAX));
    kept.keep(Set::Rootstock { tcn: 2 }, 1, census, list.clone());
    assert_eq!((kept.lists.len(), kept.ids), (1, KeptPages::IDS_MAX), "the same again");
    let larger = Census { count: census.count + 1, ..census };
    kept.keep(Set::Rootstock { tcn: 9 }, 1, larger, ids(KeptPages::IDS_MAX as u32 + 1).into());
    assert_eq!(kept.get(Set::Rootstock { tcn: 9 }, 1, larger), None, "too large to be kept");
}

proptest! {
    /// Interrupted anywhere, the two parts are the whole.
    #[test]
    fn what_is_resumed_is_exactly_the_rest(roots in 0_u32..8, scions in 0_u32..8, at in 0_usize..64) {
        let (roots, scions) = (ids(roots), ids(scions));
        let all: Vec<_> = roots.iter().flat_map(|r| scions.iter().map(move |s| (*r, *s))).collect();
        prop_assert_eq!(&run(Grid::new(), &roots, &scions), &all);
        if let Some((root, scion)) = all.get(at) {
            let from = roots.iter().position(|r| r == root).unwrap();
            prop_assert_eq!(&run(Grid::resumed(*scion), &roots[from..], &scions)[..], &all[at..]);
        }
    }
}
