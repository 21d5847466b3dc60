//! What a store holds, as its reader tells it.

use orchestrator_supervise::reply;
use std::{collections::BTreeMap, time::Duration};

use orchestrator_provenance::{
    Entrance,
    messages::ReadRequest,
    method::{Entity, Relation},
    row::Sha1Git,
    store::{Found, Question},
};

use super::expected::{Held, Id};

const PATIENCE: Duration = Duration::from_secs(120);
/// Identifiers in a question.
const ASKED: usize = 10_000;

async fn ask(entrance: &Entrance, question: Question) -> Found {
    let (reply, answer) = reply();
    entrance.ask.tell(ReadRequest { question, reply }).expect("room for a question");
    let answer = tokio::time::timeout(PATIENCE, answer).await.expect("an answer in time");
    answer.expect("a reader").expect("an answer")
}

/// Everything, by the questions for everything; what belongs to an identifier, by questions for those that were told.
pub(crate) async fn everything(entrance: &Entrance) -> Held {
    let mut held = Held::default();
    for entity in Entity::ALL {
        let Found::Ids(ids) = ask(entrance, Question::AllEntities(entity)).await else { panic!("ids") };
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
            let question = match entity {
                Entity::Content => Question::Contents(asked),
                Entity::Directory => Question::Directories(asked),
                Entity::Revision => Question::Revisions(asked),
                Entity::Origin => Question::Origins(asked),
            };
            match ask(entrance, question).await {
                Found::Dates(dates) => {
                    let dates = dates.into_iter().map(|(id, date)| (id.0, Some(date.micros())));
                    let table: &mut BTreeMap<Id, _> =
                        if entity == Entity::Content { &mut held.contents } else { &mut held.directories };
                    table.extend(dates);
                }
                Found::Revisions(revisions) => {
                    held.revisions.extend(revisions.into_iter().map(|(id, data)| {
                        (id.0, (data.date.map(|date| date.micros()), data.origin.map(|origin| origin.0)))
                    }))
                }
                Found::Urls(urls) => held.origins.extend(urls.into_iter().map(|(id, url)| (id.0, url))),
                other => panic!("another answer: {other:?}"),
            }
        }
        if entity == Entity::Origin {
            assert_eq!(held.origins.len(), ids.len(), "each origin that is told of has a url");
        }
    }
    let Found::Paths(paths) = ask(entrance, Question::AllLocations).await else { panic!("paths") };
    held.locations = paths.into_iter().map(|path| path.to_vec()).collect();
    for relation in Relation::ALL {
        let Found::Relations(rows) = ask(entrance, Question::AllRelations(relation)).await else {
            panic!("rows")
        };
        let triple = |row: orchestrator_provenance::row::RelationRow| {
            (row.src.0, row.dst.0, row.path.map(|path| path.to_vec()))
        };
        held.relations.insert(relation, rows.into_iter().map(triple).collect());
    }
    held
}
