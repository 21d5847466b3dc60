//! Rows of relations: sets, registered ends, paths (contract §6, §8.2).

use orchestrator_provenance::method::{Entity, Relation};
use orchestrator_provenance::row::{RelationRow, Rows, Sha1Git};
use orchestrator_provenance::store::{Store, Written};

use super::super::{Pair, bare, bare_revisions, content, directory, origin, paths, placed, revision};

fn id(entity: Entity, number: u8) -> Sha1Git {
    match entity {
        Entity::Content => content(number),
        Entity::Directory => directory(number),
        Entity::Revision => revision(number),
        Entity::Origin => origin(number),
    }
}

fn row(relation: Relation, src: u8, dst: u8, path: &[u8]) -> RelationRow {
    let (src, dst) = (id(relation.source(), src), id(relation.destination(), dst));
    if relation.has_path() { placed(src, dst, path) } else { bare(src, dst) }
}

/// Entities 0 to 3 of all kinds, and three paths.
fn registered() -> Vec<Rows> {
    vec![
        Rows::Contents((0..4).map(|number| (content(number), None)).collect()),
        Rows::Directories((0..4).map(|number| (directory(number), None)).collect()),
        bare_revisions(0..4),
        Rows::Origins((0..4).map(|number| (origin(number), format!("https://o{number}"))).collect()),
        paths(&[b"a", b"", b"b/c"]),
    ]
}

pub(crate) async fn sets<S: Store>(mut pair: Pair<S>) {
    pair.write(&registered()).await;
    for relation in Relation::ALL {
        let rows = |rows: &[(u8, u8, &[u8])]| {
            let mut rows: Vec<_> =
                rows.iter().map(|(src, dst, path)| row(relation, *src, *dst, path)).collect();
            rows.sort();
            rows.dedup();
            [Rows::Relations(relation, rows)]
        };
        let first = rows(&[(0, 1, b"a"), (0, 1, b""), (0, 2, b"a"), (1, 1, b"a")]);
        pair.write(&first).await;
        pair.write(&first).await;
        // Some known, some new; one of itself.
        pair.write(&rows(&[(0, 1, b"a"), (0, 1, b"b/c"), (2, 0, b""), (3, 3, b"a")])).await;
    }
    let again: Vec<_> = Relation::ALL
        .into_iter()
        .map(|relation| Rows::Relations(relation, vec![row(relation, 0, 1, b"a"), row(relation, 3, 0, b"a")]))
        .collect();
    pair.write(&again).await;
}

pub(crate) async fn unregistered_ends<S: Store>(mut pair: Pair<S>) {
    pair.write(&registered()).await;
    for relation in Relation::ALL {
        let rows = [Rows::Relations(
            relation,
            vec![
                row(relation, 0, 1, b"a"),
                row(relation, 9, 1, b"a"),
                row(relation, 0, 9, b"a"),
                row(relation, 9, 9, b"a"),
            ],
        )];
        for _ in 0..2 {
            assert_eq!(pair.write(&rows).await, Some(Written { unregistered: 3, ..Written::default() }));
        }
        if relation.has_path() {
            let long = [b'y'; 3_000];
            let rows = vec![
                row(relation, 2, 2, b"nowhere"),
                row(relation, 2, 2, &long),
                bare(id(relation.source(), 1), id(relation.destination(), 1)),
            ];
            pair.write(&[Rows::Relations(relation, rows)]).await;
        }
    }
    // An identifier of another kind is not registered for this one.
    let mixed = vec![placed(directory(0), revision(0), b"a"), placed(content(0), directory(0), b"a")];
    pair.write(&[Rows::Relations(Relation::ContentInRevision, mixed)]).await;
}

/// Relations of revisions have none, whatever their rows say.
pub(crate) async fn paths_where_none_belong<S: Store>(mut pair: Pair<S>) {
    pair.write(&registered()).await;
    for relation in [Relation::RevisionInOrigin, Relation::RevisionBeforeRevision] {
        let dst = id(relation.destination(), 2);
        let rows = vec![placed(revision(1), dst, b"a"), placed(revision(1), dst, b"nowhere")];
        assert_eq!(pair.write(&[Rows::Relations(relation, rows)]).await, Some(Written::default()));
    }
}

/// All groups of one write, in order: what the first registers, the second refers to.
pub(crate) async fn later_groups_see_earlier_ones<S: Store>(mut pair: Pair<S>) {
    let relations = || {
        Relation::ALL.into_iter().map(|relation| {
            Rows::Relations(relation, vec![row(relation, 1, 2, b"a"), row(relation, 2, 1, b"")])
        })
    };
    let mut groups: Vec<_> = relations().collect();
    groups.extend(registered());
    let early = pair.write(&groups).await.expect("not refused");
    assert_eq!(early, Written { unregistered: 10, ..Written::default() });
    groups.extend(relations());
    let late = pair.write(&groups).await.expect("not refused");
    assert_eq!(late, Written::default());
}
