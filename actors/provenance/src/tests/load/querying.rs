//! Content of a store, as its reader reports it.

use orchestrator_supervise::reply;
use std::{collections::BTreeMap, time::Duration};

use super::expected::{Held, Id};
use crate::{
    ProvenanceHandle,
    listing::Listing,
    messages::ReadRequest,
    method::{Entity, Relation},
    row::Sha1Git,
    store::{ListedRows, Query, QueryResult},
    tests::conformance::listed,
};

const TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of identifiers in a query.
const ASKED: usize = 10_000;

async fn ask(handle: &ProvenanceHandle, query: Query) -> QueryResult {
    let (reply, answer) = reply();
    handle.ask.tell(ReadRequest { query, reply }).expect("room for a question");
    let answer = tokio::time::timeout(TIMEOUT, answer).await.expect("an answer in time");
    answer.expect("a reader").expect("an answer")
}

async fn list(handle: &ProvenanceHandle, listing: Listing) -> ListedRows {
    listed(listing, async |query| ask(handle, query).await).await
}

/// All identifiers, and the data and relations of each.
pub(crate) async fn everything(handle: &ProvenanceHandle) -> Held {
    let mut held = Held::default();
    for entity in Entity::ALL {
        let ListedRows::Ids(ids) = list(handle, Listing::Entities(entity)).await else { panic!("ids") };
        let ids: Vec<Sha1Git> = ids.into_iter().collect();
        for asked in ids.chunks(ASKED) {
            let asked = asked.to_vec();
            let known = asked.iter().map(|id| id.0);
            match entity {
                Entity::Content => held.contents.extend(known.map(|id| (id, None))),
                Entity::Directory => held.directories.extend(known.map(|id| (id, None))),
                Entity::Revision => held.revisions.extend(known.map(|id| (id, (None, None)))),
                Entity::Origin => {}
            }
            let query = match entity {
                Entity::Content => Query::Contents(asked),
                Entity::Directory => Query::Directories(asked),
                Entity::Revision => Query::Revisions(asked),
                Entity::Origin => Query::Origins(asked),
            };
            match ask(handle, query).await {
                QueryResult::Dates(dates) => {
                    let dates = dates.into_iter().map(|(id, date)| (id.0, Some(date.micros())));
                    let table: &mut BTreeMap<Id, _> =
                        if entity == Entity::Content { &mut held.contents } else { &mut held.directories };
                    table.extend(dates);
                }
                QueryResult::Revisions(revisions) => {
                    held.revisions.extend(revisions.into_iter().map(|(id, data)| {
                        (id.0, (data.date.map(|date| date.micros()), data.origin.map(|origin| origin.0)))
                    }))
                }
                QueryResult::Urls(urls) => held.origins.extend(urls.into_iter().map(|(id, url)| (id.0, url))),
                other => panic!("another answer: {other:?}"),
            }
        }
        if entity == Entity::Origin {
            assert_eq!(held.origins.len(), ids.len(), "each origin that is told of has a url");
        }
    }
    let ListedRows::Paths(paths) = list(handle, Listing::Locations).await else { panic!("paths") };
    held.locations = paths.into_iter().map(|path| path.to_vec()).collect();
    for relation in Relation::ALL {
        let listing = Listing::Relation(relation, None);
        let ListedRows::Relations(rows) = list(handle, listing).await else { panic!("rows") };
        let triple =
            |row: crate::row::RelationRow| (row.src.0, row.dst.0, row.path.map(|path| path.to_vec()));
        held.relations.insert(relation, rows.into_iter().map(triple).collect());
    }
    held
}
