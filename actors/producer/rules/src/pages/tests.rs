//! Order of pairs, and the cache of pages.

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

/// Runs a grid to its end and returns its pairs.
fn run(mut grid: PairGrid, roots: &[Id], scions: &[Id]) -> Vec<(Id, Id)> {
    let (mut roots, mut scions) = (roots.iter().copied(), scions.iter().copied());
    let mut pairs = Vec::new();
    loop {
        match grid.step() {
            GridStep::Pair { root, scion } => pairs.push((root, scion)),
            GridStep::NeedRoot => grid.add_root(roots.next()),
            GridStep::NeedScion => grid.add_scion(scions.next()),
            GridStep::End => return pairs,
        }
    }
}

#[test]
fn pairs_are_ordered_by_rootstock_then_scion() {
    let pairs = run(PairGrid::new(), &ids(2), &ids(3));
    assert_eq!(pairs, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)].map(|(r, s)| (id(r), id(s))));
}

#[test]
fn an_empty_set_has_no_pairs() {
    assert_eq!(run(PairGrid::new(), &[], &ids(3)), []);
    assert_eq!(run(PairGrid::new(), &ids(3), &[]), []);
    assert_eq!(run(PairGrid::resumed(id(0)), &ids(3), &[]), []);
}

#[test]
fn the_first_pair_needs_one_page_of_each_set() {
    let mut grid = PairGrid::new();
    assert_eq!(grid.step(), GridStep::NeedRoot);
    grid.add_root(Some(id(1)));
    assert_eq!(grid.step(), GridStep::NeedScion);
    grid.add_scion(Some(id(2)));
    assert_eq!(grid.step(), GridStep::Pair { root: id(1), scion: id(2) });
    assert_eq!((grid.step(), grid.scions()), (GridStep::NeedScion, None));
    grid.add_scion(None);
    assert_eq!((grid.step(), grid.scions()), (GridStep::NeedRoot, Some(&[id(2)][..])));
}

#[test]
fn a_row_that_starts_behind_the_last_scion_is_skipped() {
    assert_eq!(run(PairGrid::resumed(id(9)), &ids(2), &ids(1)), [(id(1), id(0))]);
}

#[test]
fn remaining_pairs_start_with_the_next_one() {
    let (root, scion) = (id(1), id(2));
    assert_eq!(remaining_before(GridStep::Pair { root, scion }), Remaining::From { root, scion });
    assert_eq!(remaining_before(GridStep::End), Remaining::Nothing);
}

#[test]
fn cached_pages_are_used_while_the_set_is_unchanged() {
    let set = Set::Scion { tcn: 3 };
    let summary = SetSummary { count: 3, greatest: Some(id(2)) };
    let mut page_cache = PageCache::default();
    page_cache.insert(set, 2, summary, ids(2).into());
    assert_eq!(page_cache.get(set, 2, summary).as_deref(), Some(&ids(2)[..]));
    assert_eq!(page_cache.get(set, 3, summary), None);
    assert_eq!(page_cache.get(Set::Rootstock { tcn: 3 }, 2, summary), None);
    assert_eq!(page_cache.get(set, 2, SetSummary { count: 4, ..summary }), None, "inserted in between");
    assert_eq!(
        page_cache.get(set, 2, SetSummary { greatest: Some(id(3)), ..summary }),
        None,
        "one went, one came"
    );
    page_cache.insert(set, 2, SetSummary { count: 5, ..summary }, ids(2).into());
    assert!(page_cache.get(set, 2, summary).is_some(), "pages of a changed set are not cached");
}

#[test]
fn the_cache_is_bounded() {
    let mut page_cache = PageCache::default();
    let summary = SetSummary { count: PageCache::IDS_MAX as u64, greatest: None };
    let list: Arc<[Id]> = ids(PageCache::IDS_MAX as u32).into();
    for tcn in 0..3 {
        page_cache.insert(Set::Rootstock { tcn }, 1, summary, list.clone());
    }
    assert_eq!((page_cache.lists.len(), page_cache.ids), (1, PageCache::IDS_MAX));
    page_cache.insert(Set::Rootstock { tcn: 2 }, 1, summary, list.clone());
    assert_eq!((page_cache.lists.len(), page_cache.ids), (1, PageCache::IDS_MAX), "the same again");
    let larger = SetSummary { count: summary.count + 1, ..summary };
    page_cache.insert(Set::Rootstock { tcn: 9 }, 1, larger, ids(PageCache::IDS_MAX as u32 + 1).into());
    assert_eq!(page_cache.get(Set::Rootstock { tcn: 9 }, 1, larger), None, "too large for the cache");
}

proptest! {
    /// Interrupted at any pair, both parts are the whole.
    #[test]
    fn a_resumed_grid_has_exactly_the_remaining_pairs(roots in 0_u32..8, scions in 0_u32..8, at in 0_usize..64) {
        let (roots, scions) = (ids(roots), ids(scions));
        let all: Vec<_> = roots.iter().flat_map(|r| scions.iter().map(move |s| (*r, *s))).collect();
        prop_assert_eq!(&run(PairGrid::new(), &roots, &scions), &all);
        if let Some((root, scion)) = all.get(at) {
            let from = roots.iter().position(|r| r == root).unwrap();
            prop_assert_eq!(&run(PairGrid::resumed(*scion), &roots[from..], &scions)[..], &all[at..]);
        }
    }
}
