//! Translation of MongoDB's errors to [`StoreError`] (CONTRACT PE17).

use ::mongodb::{
    bson::{Document, RawBsonRef, RawDocument},
    error::CommandError,
};
use orchestrator_edge::{PeerError, mongodb};
use orchestrator_text::sanitize;

use crate::{method::Entity, row::Sha1Git, store::StoreError};

/// Code of a duplicate key in a unique index.
pub(super) const DUPLICATE_KEY: i32 = 11_000;

/// Codes of errors that pass, or that an operator ends. Every other error of a write may be that of one
/// document.
const TRANSIENT: &[i32] = &[
    // Network, time limits, interruptions, shutdown.
    6, 7, 24, 50, 89, 91, 202, 237, 262, 279, 290, 355, 407, 9_001, 11_600, 11_601, 11_602,
    // Changes of the primary, of shards and of the write concern.
    63, 64, 70, 79, 100, 133, 134, 150, 189, 203, 216, 249, 319, 343, 412, 10_058, 10_107, 13_388, 13_435,
    13_436, // Conflicts and overload.
    46, 112, 117, 146, 208, 215, 264, 365, 402, 406, 433, 449, 462,
    // Credentials, permissions, blocked writes, disk space; 8000 is any error of Atlas, such as a full quota.
    11, 13, 18, 371, 391, 8_000, 14_031,
];
/// Codes that prevent a unique index for good: duplicates, a conflicting index, no permission.
pub(super) const INDEX_IMPOSSIBLE: &[i32] = &[13, 67, 85, 86, DUPLICATE_KEY];

impl From<PeerError> for StoreError {
    fn from(error: PeerError) -> Self {
        Self::unavailable(&error)
    }
}

/// Translates the server's error of an update command as a whole. `document` names its document, if it has
/// only one.
pub(super) fn explain_command(action: &str, reply: &CommandError, document: Option<String>) -> StoreError {
    classify(action, &reply.message, reply.code, document.as_deref().unwrap_or("some document"))
}

/// Translates an entry of `writeErrors` of an update command, which is about `document`.
pub(super) fn explain_update(action: &str, reply: &Document, document: &str) -> StoreError {
    classify(action, reply.get_str("errmsg").unwrap_or("no reason is given"), code(reply), document)
}

fn classify(action: &str, message: &str, code: i32, document: &str) -> StoreError {
    if TRANSIENT.contains(&code) {
        return StoreError::Unavailable(mongodb::command_failure(action, message, code));
    }
    let message = sanitize(message);
    StoreError::Undecided(format!("the database refuses {document} while {action}: {message} (code {code})"))
}

/// Translates `writeConcernError` of an update command: the updates are done, but not journaled on
/// a majority.
pub(super) fn explain_concern(action: &str, reply: &Document) -> StoreError {
    let message = reply.get_str("errmsg").unwrap_or("no reason is given");
    StoreError::Unavailable(mongodb::not_durable(action, message, code(reply)))
}

pub(super) fn code(reply: &Document) -> i32 {
    reply.get_i32("code").unwrap_or_default()
}

/// Names the document that an update changes.
pub(super) fn document_of_update(entity: Entity, update: &RawDocument) -> String {
    let name = update.get_document("q").map_or_else(|_| "a document".to_owned(), document_name);
    format!("{name} of the collection {}", entity.value())
}

/// Names a document by its `_id`, or by `sha1` if the former is missing.
pub(super) fn document_name(document: &RawDocument) -> String {
    let field = |name: &str| document.get(name).ok().flatten();
    match (field("_id"), field("sha1")) {
        (Some(RawBsonRef::ObjectId(id)), _) => format!("the document with _id {id}"),
        (Some(id), _) => format!("the document with _id {}", shortened(&id)),
        (None, Some(RawBsonRef::Binary(id))) if id.bytes.len() == 20 => {
            let id = id.bytes.try_into().map(Sha1Git).map_or_else(|_| String::new(), |id| id.to_string());
            format!("the document with sha1 {id}")
        }
        (None, Some(id)) => format!("the document with sha1 {}", shortened(&id)),
        (None, None) => "a document".to_owned(),
    }
}

pub(super) fn shortened(value: &impl std::fmt::Debug) -> String {
    let mut text = format!("{value:?}");
    text.truncate(text.floor_char_boundary(200));
    text
}
