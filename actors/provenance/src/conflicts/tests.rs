//! Conflict resolution against a naive model of the original and its database.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;

use crate::{
    method::{Method, Relation},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
};

fn id(n: u8) -> Sha1Git {
    Sha1Git([n; 20])
}

fn date(micros: i64) -> Option<Date> {
    Date::from_micros(micros)
}

fn revision(micros: Option<i64>, origin: Option<u8>) -> RevisionData {
    RevisionData { date: micros.and_then(date), origin: origin.map(id) }
}

/// Naive database of one method's rows.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    dates: BTreeMap<Sha1Git, Option<Date>>,
    revisions: BTreeMap<Sha1Git, RevisionData>,
    urls: BTreeMap<Sha1Git, String>,
    paths: BTreeSet<Bytes>,
    relations: BTreeSet<RelationRow>,
}

impl Model {
    fn write(&mut self, rows: &Rows) {
        let least = |old: Option<Date>, new: Option<Date>| [old, new].into_iter().flatten().min();
        match rows {
            Rows::Contents(rows) | Rows::Directories(rows) => {
                for &(id, new) in rows {
                    let old = self.dates.get(&id).copied().flatten();
                    self.dates.insert(id, least(old, new));
                }
            }
            Rows::Revisions(rows) => {
                for &(id, new) in rows {
                    let old = self.revisions.get(&id).copied().unwrap_or_default();
                    let origin = if new.origin.is_some() { new.origin } else { old.origin };
                    self.revisions.insert(id, RevisionData { date: least(old.date, new.date), origin });
                }
            }
            Rows::Origins(rows) => {
                for (id, url) in rows {
                    if !self.urls.contains_key(id) {
                        self.urls.insert(*id, url.clone());
                    }
                }
            }
            Rows::Locations(rows) => self.paths.extend(rows.iter().cloned()),
            Rows::Relations(_, rows) => self.relations.extend(rows.iter().cloned()),
        }
    }

    /// Has the resolved rows of one batch.
    fn of_batch(rows: &Rows) -> Self {
        let mut model = Self::default();
        if let Rows::Origins(rows) = rows {
            for (id, url) in rows {
                model.urls.insert(*id, url.clone());
            }
        } else {
            model.write(rows);
        }
        model
    }

    /// All rows, by key.
    fn rows(self, method: Method) -> Rows {
        match Rows::none(method) {
            Rows::Contents(_) => Rows::Contents(self.dates.into_iter().collect()),
            Rows::Directories(_) => Rows::Directories(self.dates.into_iter().collect()),
            Rows::Revisions(_) => Rows::Revisions(self.revisions.into_iter().collect()),
            Rows::Origins(_) => Rows::Origins(self.urls.into_iter().collect()),
            Rows::Locations(_) => Rows::Locations(self.paths.into_iter().collect()),
            Rows::Relations(relation, _) => Rows::Relations(relation, self.relations.into_iter().collect()),
        }
    }
}

fn ids() -> impl Strategy<Value = Sha1Git> {
    (0_u8..6).prop_map(id)
}

fn dates() -> impl Strategy<Value = Option<Date>> {
    prop::option::of((-3_i64..3).prop_map(|micros| date(micros).unwrap()))
}

fn paths() -> impl Strategy<Value = Bytes> {
    prop::sample::select(vec!["", ".", "a", "a/b"]).prop_map(Bytes::from)
}

fn rows_of(method: Method) -> BoxedStrategy<Rows> {
    let data = (dates(), prop::option::of(ids())).prop_map(|(date, origin)| RevisionData { date, origin });
    let relation =
        (ids(), ids(), prop::option::of(paths())).prop_map(|(src, dst, path)| RelationRow { src, dst, path });
    match Rows::none(method) {
        Rows::Contents(_) => prop::collection::vec((ids(), dates()), 0..24).prop_map(Rows::Contents).boxed(),
        Rows::Directories(_) => {
            prop::collection::vec((ids(), dates()), 0..24).prop_map(Rows::Directories).boxed()
        }
        Rows::Revisions(_) => prop::collection::vec((ids(), data), 0..24).prop_map(Rows::Revisions).boxed(),
        Rows::Origins(_) => {
            prop::collection::vec((ids(), "[ab]{1,2}"), 0..24).prop_map(Rows::Origins).boxed()
        }
        Rows::Locations(_) => prop::collection::vec(paths(), 0..24).prop_map(Rows::Locations).boxed(),
        Rows::Relations(of, _) => {
            prop::collection::vec(relation, 0..24).prop_map(move |rows| Rows::Relations(of, rows)).boxed()
        }
    }
}

fn methods() -> impl Strategy<Value = Method> {
    prop::sample::select(Method::ALL.to_vec())
}

fn merged(mut first: Rows, later: Rows) -> Rows {
    first.merge(later).unwrap();
    first
}

#[test]
fn the_earliest_known_date_is_kept() {
    let rows = vec![
        (id(2), None),
        (id(1), date(7)),
        (id(1), None),
        (id(1), date(-5)),
        (id(1), date(9)),
        (id(2), None),
    ];
    let expected = vec![(id(1), date(-5)), (id(2), None)];
    assert_eq!(Rows::Contents(rows.clone()).resolve(), Rows::Contents(expected.clone()));
    assert_eq!(Rows::Directories(rows).resolve(), Rows::Directories(expected));
}

#[test]
fn a_revision_keeps_its_earliest_date_and_last_origin() {
    let rows = vec![
        (id(1), revision(Some(5), Some(8))),
        (id(2), RevisionData::default()),
        (id(1), revision(Some(9), Some(7))),
        (id(1), revision(Some(6), None)),
        (id(2), RevisionData::default()),
    ];
    let expected = vec![(id(1), revision(Some(5), Some(7))), (id(2), RevisionData::default())];
    assert_eq!(Rows::Revisions(rows).resolve(), Rows::Revisions(expected));
}

#[test]
fn the_last_url_wins_in_a_batch_and_the_first_between_batches() {
    let url = |url: &str| Rows::Origins(vec![(id(1), url.to_owned())]);
    let mut rows = url("a");
    rows.append(url("b")).unwrap();
    assert_eq!(rows.resolve(), url("b"));
    assert_eq!(merged(url("a"), url("b")), url("a"));
}

#[test]
fn relations_with_different_paths_are_both_kept() {
    let row =
        |path: Option<&'static str>| RelationRow { src: id(1), dst: id(2), path: path.map(Bytes::from) };
    let rows = vec![row(Some("b")), row(None), row(Some("a")), row(Some("b")), row(None)];
    assert_eq!(
        Rows::Relations(Relation::ContentInRevision, rows).resolve(),
        Rows::Relations(Relation::ContentInRevision, vec![row(None), row(Some("a")), row(Some("b"))])
    );
}

#[test]
fn rows_of_another_method_are_returned() {
    for method in Method::ALL {
        for other in Method::ALL {
            let expected = if method == other { Ok(()) } else { Err(Rows::none(other)) };
            assert_eq!(Rows::none(method).append(Rows::none(other)), expected);
            assert_eq!(Rows::none(method).merge(Rows::none(other)), expected);
        }
    }
}

proptest! {
    #[test]
    fn a_resolved_batch_equals_the_model(rows in methods().prop_flat_map(rows_of)) {
        let expected = Model::of_batch(&rows).rows(rows.method());
        let resolved = rows.resolve();
        prop_assert_eq!(&resolved, &expected);
        prop_assert_eq!(resolved.clone().resolve(), resolved);
    }

    #[test]
    fn writing_merged_batches_equals_writing_both(
        (stored, first, later) in methods().prop_flat_map(|m| (rows_of(m), rows_of(m), rows_of(m))),
    ) {
        let (stored, first, later) = (stored.resolve(), first.resolve(), later.resolve());
        let mut two = Model::default();
        two.write(&stored);
        let mut one = two.clone();
        two.write(&first);
        two.write(&later);
        one.write(&merged(first, later));
        prop_assert_eq!(one, two);
    }

    #[test]
    fn merging_batches_is_associative(
        (a, b, c) in methods().prop_flat_map(|m| (rows_of(m), rows_of(m), rows_of(m))),
    ) {
        let (a, b, c) = (a.resolve(), b.resolve(), c.resolve());
        let left = merged(merged(a.clone(), b.clone()), c.clone());
        prop_assert_eq!(left, merged(a.clone(), merged(b, c)));
        prop_assert_eq!(merged(a.clone(), a.clone()), a);
    }
}
