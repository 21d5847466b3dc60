//! Listings: all pages together are compared with the model's whole answer.

use std::collections::BTreeSet;

use crate::{
    listing::{End, Listing},
    method::{Entity, Relation},
    row::{RelationRow, Sha1Git},
    store::{ListedRows, Page, Query, QueryResult, Store},
};

use super::{Pair, content, revision};

/// Largest page, as streams have it.
const PAGE: usize = 1_000;

/// Compares every listing, in pages of `small` rows and in large ones, and the relations of `ids`.
pub(super) async fn compare<S: Store>(pair: &mut Pair<S>, ids: &[Sha1Git], small: usize) {
    for limit in [small, PAGE] {
        for entity in Entity::ALL {
            list(pair, Listing::Entities(entity), limit).await;
        }
        list(pair, Listing::Locations, limit).await;
        for relation in Relation::ALL {
            list(pair, Listing::Relation(relation, None), limit).await;
            for id in ids {
                // Each sequence has few identifiers of each kind.
                if limit < PAGE {
                    list(pair, Listing::Relation(relation, Some(End::Source(*id))), limit).await;
                    list(pair, Listing::Relation(relation, Some(End::Destination(*id))), limit).await;
                }
            }
        }
    }
}

/// Compares large listings.
pub(super) async fn compare_many<S: Store>(pair: &mut Pair<S>) {
    let relation = Relation::ContentInRevision;
    for end in [None, Some(End::Destination(revision(0))), Some(End::Source(content(0)))] {
        list(pair, Listing::Relation(relation, end), PAGE).await;
    }
    list(pair, Listing::Entities(Entity::Content), PAGE).await;
    list(pair, Listing::Locations, PAGE).await;
}

/// Reads all pages, checks each, and compares their rows with the model.
async fn list<S: Store>(pair: &mut Pair<S>, listing: Listing, limit: usize) {
    let (mut rows, mut after) = (BTreeSet::new(), None);
    loop {
        let query = Query::Page { listing, after, limit };
        let QueryResult::Page(Page { rows: page, next }) = pair.store.read(&query).await.expect("a page")
        else {
            panic!("a page was asked for");
        };
        let page = texts(page);
        assert!(page.len() <= limit, "{}: {} rows of {limit} in {query:?}", pair.case, page.len());
        assert!(next.is_none() || !page.is_empty(), "{}: {query:?} makes no progress", pair.case);
        for row in page {
            // MongoDB has no locations, so a path may be in several pages (CONTRACT PD16).
            let may_repeat = listing == Listing::Locations && !pair.flavor.locations;
            assert!(rows.insert(row.clone()) || may_repeat, "{}: {row} twice: {query:?}", pair.case);
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(rows, texts(pair.model.listed(listing)), "{}: {listing:?}", pair.case);
}

/// Rows as texts, to compare rows of any kind.
fn texts(rows: ListedRows) -> BTreeSet<String> {
    match rows {
        ListedRows::Ids(ids) => ids.iter().map(Sha1Git::to_string).collect(),
        ListedRows::Paths(paths) => paths.iter().map(|path| format!("{path:?}")).collect(),
        ListedRows::Relations(rows) => rows.iter().map(|row: &RelationRow| format!("{row:?}")).collect(),
    }
}

/// `read` answers the pages.
pub(crate) async fn listed(listing: Listing, mut read: impl AsyncFnMut(Query) -> QueryResult) -> ListedRows {
    let (mut all, mut after) = (None, None);
    loop {
        let QueryResult::Page(page) = read(Query::Page { listing, after, limit: PAGE }).await else {
            panic!("a page was asked for");
        };
        match (all.as_mut(), page.rows) {
            (None, rows) => all = Some(rows),
            (Some(ListedRows::Ids(all)), ListedRows::Ids(mut more)) => all.append(&mut more),
            (Some(ListedRows::Paths(all)), ListedRows::Paths(mut more)) => all.append(&mut more),
            (Some(ListedRows::Relations(all)), ListedRows::Relations(mut more)) => all.append(&mut more),
            (Some(all), more) => panic!("{more:?} after {all:?}"),
        }
        after = page.next;
        if after.is_none() {
            return all.expect("a page");
        }
    }
}
