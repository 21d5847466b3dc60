//! Update commands: several updates each, with the server's answer about each update.

use std::collections::HashSet;

use mongodb::bson::{Document, RawArrayBuf, RawDocumentBuf, rawdoc};

use super::{
    error::{DUPLICATE_KEY, code, document_of_update, explain_command, explain_concern, explain_update},
    session::{COMMAND_TIMEOUT, Session},
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
        let entries = encoded(entity, entries)?;
        let mut inserted = HashSet::new();
        let mut todo: Vec<usize> = (0..entries.len()).collect();
        for tries in 1.. {
            let some: Vec<&RawDocumentBuf> = todo.iter().map(|at| &entries[*at]).collect();
            let outcome = self.send(entity, &some).await?;
            inserted.extend(outcome.inserted.into_iter().map(|at| todo[at]));
            match outcome.duplicates.first() {
                None => break,
                Some((at, reply)) if tries == TRIES => {
                    return Err(explain_update(ACTION, reply, &document_of_update(entity, some[*at])));
                }
                Some(_) => todo = outcome.duplicates.into_iter().map(|(at, _)| todo[at]).collect(),
            }
        }
        Ok(inserted)
    }

    /// Applies updates to documents of `entity`, each by itself, in any order.
    pub(super) async fn change(&self, entity: Entity, entries: Vec<Document>) -> Result<(), StoreError> {
        let entries = encoded(entity, entries)?;
        let outcome = self.send(entity, &entries.iter().collect::<Vec<_>>()).await?;
        match outcome.duplicates.first() {
            Some((at, reply)) => {
                Err(explain_update(ACTION, reply, &document_of_update(entity, &entries[*at])))
            }
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
                    COMMAND_TIMEOUT,
                    rawdoc! {
                        "update": entity.value(),
                        "updates": updates,
                        "ordered": false,
                        "writeConcern": { "w": "majority", "j": true, "wtimeout": MAJORITY_WAIT_MS },
                    },
                )
                .await;
            let named = |at: usize| entries.get(at).map(|entry| document_of_update(entity, entry));
            let only = || if end - begin == 1 { named(begin) } else { None };
            let answer = answer?.map_err(|refused| explain_command(ACTION, &refused, only()))?;
            outcome.add(&answer, begin, named)?;
            begin = end;
        }
        Ok(outcome)
    }
}

impl UpdateOutcome {
    /// Adds the server's answer about the updates from position `begin` on; `named` names the document of an
    /// update.
    fn add(
        &mut self,
        answer: &Document,
        begin: usize,
        named: impl Fn(usize) -> Option<String>,
    ) -> Result<(), StoreError> {
        let at =
            |entry: &Document| begin + entry.get_i32("index").unwrap_or_default().unsigned_abs() as usize;
        self.inserted.extend(documents(answer, "upserted").map(at));
        let mut refused = None;
        for error in documents(answer, "writeErrors") {
            if code(error) == DUPLICATE_KEY {
                self.duplicates.push((at(error), error.clone()));
                continue;
            }
            let document = named(at(error)).unwrap_or_else(|| "a document".to_owned());
            match explain_update(ACTION, error, &document) {
                // Only a healthy server can tell whether the data is invalid.
                away @ StoreError::Unavailable(_) => return Err(away),
                reason => refused = refused.or(Some(reason)),
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

fn encoded(entity: Entity, entries: Vec<Document>) -> Result<Vec<RawDocumentBuf>, StoreError> {
    let encode = |entry: &Document| {
        let entry = RawDocumentBuf::try_from(entry)
            .map_err(|error| StoreError::Refused(format!("a row that cannot be written as BSON: {error}")))?;
        let bytes = entry.as_bytes().len();
        if bytes > UPDATE_BYTES_MAX {
            return Err(StoreError::Refused(format!(
                "a row of {bytes} bytes for {}: a document of the database takes 16 MiB at the most",
                document_of_update(entity, &entry)
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
        outcome.add(&answer, 10, |_| None).unwrap();
        assert_eq!(outcome.inserted, [10, 12].into());
        assert_eq!(outcome.duplicates.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [11]);
    }

    #[test]
    fn a_row_is_refused_only_by_a_healthy_server() {
        let reply = |errors: &[i32]| {
            let errors: Vec<Document> = errors.iter().map(|code| error(0, *code)).collect();
            let named = |at| Some(format!("document {at}"));
            UpdateOutcome::default().add(&doc! { "ok": 1, "writeErrors": errors }, 7, named).unwrap_err()
        };
        const TOO_LARGE: i32 = 17_419;
        const BAD_VALUE: i32 = 2;
        const NEW_CODE: i32 = 123_456;
        const NOT_PRIMARY: i32 = 10_107;
        for code in [TOO_LARGE, BAD_VALUE, NEW_CODE] {
            let reason = "the database refuses document 7 while writing rows: because";
            let expected = StoreError::Undecided(format!("{reason} (code {code})"));
            assert_eq!(reply(&[code]), expected);
        }
        for errors in [&[NOT_PRIMARY][..], &[TOO_LARGE, NOT_PRIMARY], &[8_000], &[13]] {
            assert!(matches!(reply(errors), StoreError::Unavailable(_)), "{errors:?}");
        }
    }

    /// The updates are done but not durable, so they must not be reported as stored.
    #[test]
    fn a_write_without_a_majority_is_unavailable() {
        let answer = doc! { "ok": 1, "n": 1, "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" } };
        let away = UpdateOutcome::default().add(&answer, 0, |_| None).unwrap_err();
        assert!(
            matches!(&away, StoreError::Unavailable(failure) if failure.reason.contains("durable")),
            "{away}"
        );
    }
}
