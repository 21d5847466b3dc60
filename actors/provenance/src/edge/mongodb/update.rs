//! Update commands: as many updates as fit into one, and what the server says of each of them.

use std::collections::HashSet;

use mongodb::bson::{Document, RawArrayBuf, RawDocumentBuf, rawdoc};

use super::{
    error::{DUPLICATE_KEY, code, explain_concern, explain_update},
    session::Session,
};
use crate::{method::Entity, store::StoreError};

/// Updates that share a command at the most: each command waits once for the disks.
const UPDATES_MAX: usize = 2_000;
/// Bytes that share a command at the most, beside an update that is larger. A command is a document, of 16 MiB at the most.
const BYTES_MAX: usize = 8 << 20;
/// Bytes of one update at the most, so that what goes around it still fits.
const UPDATE_BYTES_MAX: usize = 16_000_000;
/// How long the majority may take; then it is tried again.
const MAJORITY_WAIT_MS: i32 = 20_000;
/// Tries of an insertion that another writer was quicker with: then the document is there.
const TRIES: usize = 4;

const ACTION: &str = "writing rows";

/// What became of some updates.
#[derive(Debug, Default)]
struct Outcome {
    /// Those that inserted a document.
    inserted: HashSet<usize>,
    /// What the server says of those that met a key of a unique index.
    duplicates: Vec<(usize, Document)>,
}

impl Session {
    /// Inserts the documents of `entity` that are missing; each entry is an upsert. Gives the positions of those that were.
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
                Some((_, said)) if tries == TRIES => return Err(explain_update(ACTION, said)),
                Some(_) => todo = outcome.duplicates.into_iter().map(|(at, _)| todo[at]).collect(),
            }
        }
        Ok(inserted)
    }

    /// Changes documents of `entity`, each by itself, in any order.
    pub(super) async fn change(&self, entity: Entity, entries: Vec<Document>) -> Result<(), StoreError> {
        let entries = encoded(entries)?;
        let outcome = self.send(entity, &entries.iter().collect::<Vec<_>>()).await?;
        match outcome.duplicates.first() {
            Some((_, said)) => Err(explain_update(ACTION, said)),
            None => Ok(()),
        }
    }

    async fn send(&self, entity: Entity, entries: &[&RawDocumentBuf]) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::default();
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

impl Outcome {
    /// Adds the server's answer about updates from position `begin` on.
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
                // Whether the data is to blame shows when the server is well.
                away @ StoreError::Away(_) => return Err(away),
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
    fn positions_are_those_of_all_updates() {
        let mut outcome = Outcome::default();
        let answer = doc! { "ok": 1, "n": 3, "upserted": [{ "index": 0, "_id": 7 }, { "index": 2, "_id": 8 }],
        "writeErrors": [error(1, DUPLICATE_KEY)] };
        outcome.add(&answer, 10).unwrap();
        assert_eq!(outcome.inserted, [10, 12].into());
        assert_eq!(outcome.duplicates.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [11]);
    }

    #[test]
    fn a_row_is_to_blame_only_while_the_server_is_well() {
        let said = |errors: &[i32]| {
            let errors: Vec<Document> = errors.iter().map(|code| error(0, *code)).collect();
            Outcome::default().add(&doc! { "ok": 1, "writeErrors": errors }, 0).unwrap_err()
        };
        const TOO_LARGE: i32 = 17_419;
        const NOT_PRIMARY: i32 = 10_107;
        assert!(matches!(said(&[TOO_LARGE]), StoreError::Refused(_)));
        for errors in [&[NOT_PRIMARY][..], &[TOO_LARGE, NOT_PRIMARY], &[8_000]] {
            assert!(matches!(said(errors), StoreError::Away(_)), "{errors:?}");
        }
    }

    /// Done, but not durable: that is told to nobody as stored.
    #[test]
    fn what_no_majority_has_is_tried_again() {
        let answer = doc! { "ok": 1, "n": 1, "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" } };
        let away = Outcome::default().add(&answer, 0).unwrap_err();
        assert!(matches!(&away, StoreError::Away(reason) if reason.contains("durable")), "{away}");
    }
}
