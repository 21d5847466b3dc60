//! Update commands: several updates each, with the server's answer about each update.

use std::collections::HashSet;

use mongodb::bson::{Document, RawArrayBuf, RawDocumentBuf, rawdoc};

use super::{
    error::{DUPLICATE_KEY, code, explain_concern, explain_update},
    session::Session,
};
use crate::{method::Entity, store::StoreError};

/// Maximum number of updates in a command; each command waits for the journal once.
const UPDATES_MAX: usize = 2_000;
/// Maximum size of the updates in a command, in bytes, except for one larger update. A command is a
/// document of at most 16 MiB.
const BYTES_MAX: usize = 8 << 20;
/// Maximum size of one update, in bytes, which leaves space for the rest of the command.
const UPDATE_BYTES_MAX: usize = 16_000_000;
/// Time-out of the majority, in ms; the write is then repeated (CONTRACT PS03).
const MAJORITY_WAIT_MS: i32 = 20_000;
/// Maximum number of tries of an insertion that races with another writer; the document then
/// exists.
const TRIES: usize = 4;

const ACTION: &str = "writing rows";

/// Result of some updates.
#[derive(Debug, Default)]
struct UpdateOutcome {
    /// Positions of the updates that inserted a document.
    inserted: HashSet<usize>,
    /// Positions of the updates with a duplicate key, with the server's errors.
    duplicates: Vec<(usize, Document)>,
}

impl Session {
    /// Inserts the missing documents of `entity`; each entry is an upsert. Returns the positions of
    /// the inserted ones.
    pub(super) async fn insert(
        &self,
        entity: Entity,
        entries: Vec<Document>,
    ) -> Result<HashSet<usize>, StoreError> {
        let entries = encoded(entries)?;
        let mut inserted = HashSet::new();
        let mut todo: Vec<usize> = (0..entries.len()).collect();
        for tries in 1.. {
            let some: Vec<&RawDocumentBuf> = todo.iter().map(|at| &entries[*at]).collect();
            let outcome = self.send(entity, &some).await?;
            inserted.extend(outcome.inserted.into_iter().map(|at| todo[at]));
            match outcome.duplicates.first() {
                None => break,
                Some((_, reply)) if tries == TRIES => return Err(explain_update(ACTION, reply)),
                Some(_) => todo = outcome.duplicates.into_iter().map(|(at, _)| todo[at]).collect(),
            }
        }
        Ok(inserted)
    }

    /// Applies updates to documents of `entity`, each by itself, in any order.
    pub(super) async fn change(&self, entity: Entity, entries: Vec<Document>) -> Result<(), StoreError> {
        let entries = encoded(entries)?;
        let outcome = self.send(entity, &entries.iter().collect::<Vec<_>>()).await?;
        match outcome.duplicates.first() {
            Some((_, reply)) => Err(explain_update(ACTION, reply)),
            None => Ok(()),
        }
    }

    async fn send(&self, entity: Entity, entries: &[&RawDocumentBuf]) -> Result<UpdateOutcome, StoreError> {
        let mut outcome = UpdateOutcome::default();
        let mut begin = 0;
        while begin < entries.len() {
            let mut updates = RawArrayBuf::new();
            let (mut end, mut bytes) = (begin, 0);
            while end < entries.len() && end - begin < UPDATES_MAX {
                bytes += entries[end].as_bytes().len();
                if end > begin && bytes > BYTES_MAX {
                    break;
                }
                updates.push(entries[end]);
                end += 1;
            }
            let answer = self
                .command(
                    ACTION,
                    rawdoc! {
                        "update": entity.value(),
                        "updates": updates,
                        "ordered": false,
                        "writeConcern": { "w": "majority", "j": true, "wtimeout": MAJORITY_WAIT_MS },
                    },
                )
                .await?;
            outcome.add(&answer, begin)?;
            begin = end;
        }
        Ok(outcome)
    }
}

impl UpdateOutcome {
    /// Adds the server's answer about the updates from position `begin` on.
    fn add(&mut self, answer: &Document, begin: usize) -> Result<(), StoreError> {
        let at =
            |entry: &Document| begin + entry.get_i32("index").unwrap_or_default().unsigned_abs() as usize;
        self.inserted.extend(documents(answer, "upserted").map(at));
        let mut refused = None;
        for error in documents(answer, "writeErrors") {
            if code(error) == DUPLICATE_KEY {
                self.duplicates.push((at(error), error.clone()));
                continue;
            }
            match explain_update(ACTION, error) {
                // Only a healthy server can tell whether the data is invalid.
                away @ StoreError::Unavailable(_) => return Err(away),
                reason @ StoreError::Refused(_) => refused = refused.or(Some(reason)),
            }
        }
        if let Ok(error) = answer.get_document("writeConcernError") {
            return Err(explain_concern(ACTION, error));
        }
        refused.map_or(Ok(()), Err)
    }
}

fn documents<'a>(answer: &'a Document, name: &str) -> impl Iterator<Item = &'a Document> {
    answer.get_array(name).into_iter().flatten().filter_map(|entry| entry.as_document())
}

fn encoded(entries: Vec<Document>) -> Result<Vec<RawDocumentBuf>, StoreError> {
    let encode = |entry: &Document| {
        let entry = RawDocumentBuf::try_from(entry)
            .map_err(|error| StoreError::Refused(format!("a row that cannot be written as BSON: {error}")))?;
        let bytes = entry.as_bytes().len();
        if bytes > UPDATE_BYTES_MAX {
            return Err(StoreError::Refused(format!(
                "a row of {bytes} bytes: a document of the database takes 16 MiB at the most"
            )));
        }
        Ok(entry)
    };
    entries.iter().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn error(index: i32, code: i32) -> Document {
        doc! { "index": index, "code": code, "errmsg": "because" }
    }

    #[test]
    fn positions_count_the_updates_of_earlier_commands() {
        let mut outcome = UpdateOutcome::default();
        let answer = doc! { "ok": 1, "n": 3, "upserted": [{ "index": 0, "_id": 7 }, { "index": 2, "_id": 8 }],
        "writeErrors": [error(1, DUPLICATE_KEY)] };
        outcome.add(&answer, 10).unwrap();
        assert_eq!(outcome.inserted, [10, 12].into());
        assert_eq!(outcome.duplicates.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [11]);
    }

    #[test]
    fn a_row_is_refused_only_by_a_healthy_server() {
        let reply = |errors: &[i32]| {
            let errors: Vec<Document> = errors.iter().map(|code| error(0, *code)).collect();
            UpdateOutcome::default().add(&doc! { "ok": 1, "writeErrors": errors }, 0).unwrap_err()
        };
        const TOO_LARGE: i32 = 17_419;
        const NOT_PRIMARY: i32 = 10_107;
        assert!(matches!(reply(&[TOO_LARGE]), StoreError::Refused(_)));
        for errors in [&[NOT_PRIMARY][..], &[TOO_LARGE, NOT_PRIMARY], &[8_000]] {
            assert!(matches!(reply(errors), StoreError::Unavailable(_)), "{errors:?}");
        }
    }

    /// The updates are done but not durable, so they must not be reported as stored.
    #[test]
    fn a_write_without_a_majority_is_unavailable() {
        let answer = doc! { "ok": 1, "n": 1, "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" } };
        let away = UpdateOutcome::default().add(&answer, 0).unwrap_err();
        assert!(matches!(&away, StoreError::Unavailable(reason) if reason.contains("durable")), "{away}");
    }
}
