//! Conversion between documents and types. Errors name the collection, the document and the field.

mod completions;

use mongodb::bson::{Bson, Document, doc, oid::ObjectId};
use orchestrator_producer_rules::{
    cursor::{Cursor, Remaining, SetSummary},
    id::Id,
    lease::Lease,
    stencil::{ConfigDocument, InvalidDocument, Stencil},
};
use orchestrator_text::sanitize_to;

pub(super) use self::completions::{completion, completion_key, completion_state};

/// `_id` of the configuration document.
pub(super) const CONFIG: &str = "config";

const INTEGER: &str = "an integer";
const IDENTIFIER: &str = "an ObjectId";
const DOCUMENT: &str = "a document";

/// Document whose fields are read.
struct DocumentReader<'a> {
    collection: &'a str,
    whole: &'a Document,
}

impl DocumentReader<'_> {
    fn invalid(&self, field: &'static str, found: Option<&Bson>, wanted: &'static str) -> InvalidDocument {
        let id = match self.whole.get("_id") {
            Some(Bson::ObjectId(id)) => id.to_hex(),
            Some(Bson::String(id)) => sanitize_to(id, 100),
            Some(Bson::Int32(id)) => id.to_string(),
            Some(Bson::Int64(id)) => id.to_string(),
            Some(other) => describe(Some(other)),
            None => "without _id".to_owned(),
        };
        InvalidDocument { collection: self.collection.to_owned(), id, field, found: describe(found), wanted }
    }

    fn integer(&self, part: &Document, field: &'static str) -> Result<i64, InvalidDocument> {
        match part.get(last_component(field)) {
            Some(Bson::Int32(number)) => Ok((*number).into()),
            Some(Bson::Int64(number)) => Ok(*number),
            other => Err(self.invalid(field, other, INTEGER)),
        }
    }

    /// Reads a number that this program wrote and that is never negative.
    fn natural<T: TryFrom<i64>>(&self, part: &Document, field: &'static str) -> Result<T, InvalidDocument> {
        let number = self.integer(part, field)?;
        number
            .try_into()
            .map_err(|_| self.invalid(field, part.get(last_component(field)), "a number that fits"))
    }

    fn id(&self, part: &Document, field: &'static str) -> Result<Id, InvalidDocument> {
        match part.get(last_component(field)) {
            Some(Bson::ObjectId(id)) => Ok(Id(id.bytes())),
            other => Err(self.invalid(field, other, IDENTIFIER)),
        }
    }

    fn optional_id(&self, part: &Document, field: &'static str) -> Result<Option<Id>, InvalidDocument> {
        match part.get(last_component(field)) {
            None | Some(Bson::Null) => Ok(None),
            Some(_) => self.id(part, field).map(Some),
        }
    }

    fn part<'d>(
        &self,
        whole: &'d Document,
        field: &'static str,
    ) -> Result<Option<&'d Document>, InvalidDocument> {
        match whole.get(last_component(field)) {
            None | Some(Bson::Null) => Ok(None),
            Some(Bson::Document(part)) => Ok(Some(part)),
            other => Err(self.invalid(field, other, DOCUMENT)),
        }
    }
}

fn last_component(path: &'static str) -> &'static str {
    path.rsplit('.').next().unwrap_or(path)
}

fn describe(found: Option<&Bson>) -> String {
    match found {
        None => "missing".to_owned(),
        Some(Bson::Double(number)) => format!("the double {number}"),
        Some(Bson::String(text)) => format!("the text \"{}\"", sanitize_to(text, 100)),
        Some(Bson::Boolean(value)) => format!("the boolean {value}"),
        Some(Bson::Int32(number)) => format!("the integer {number}"),
        Some(Bson::Int64(number)) => format!("the integer {number}"),
        Some(Bson::ObjectId(id)) => format!("the ObjectId {id}"),
        Some(Bson::Null) => "null".to_owned(),
        Some(other) => format!("of type {:?}", other.element_type()),
    }
}

/// Reads the `_id` of a tangle.
pub(super) fn id(collection: &str, found: &Document) -> Result<Id, InvalidDocument> {
    DocumentReader { collection, whole: found }.id(found, "_id")
}

/// Converts an identifier.
pub(super) fn object_id(id: Id) -> ObjectId {
    ObjectId::from_bytes(id.0)
}

pub(super) fn config_document(collection: &str, found: &Document) -> Result<ConfigDocument, InvalidDocument> {
    let reader = DocumentReader { collection, whole: found };
    Ok(ConfigDocument {
        completed_tcn: reader.integer(found, "current_completed_tcn")?,
        max_tcn: reader.integer(found, "max_tcn")?,
    })
}

/// `strict` accepts a TCN of any number type and ignores the cursor, as the original does.
pub(super) fn stencil(collection: &str, found: &Document, strict: bool) -> Result<Stencil, InvalidDocument> {
    let reader = DocumentReader { collection, whole: found };
    let tcn = match found.get("TCN") {
        Some(Bson::Double(number)) if strict => *number as i64,
        _ => reader.integer(found, "TCN")?,
    };
    Ok(Stencil {
        id: reader.id(found, "_id")?,
        tcn,
        rootstock_tcn: reader.integer(found, "rootstock_tcn")?,
        scion_tcn: reader.integer(found, "scion_tcn")?,
        state: reader.integer(found, "state")?.into(),
        cursor: if strict { None } else { read_cursor(&reader)? },
    })
}

fn read_cursor(reader: &DocumentReader<'_>) -> Result<Option<Cursor>, InvalidDocument> {
    let Some(ours) = reader.part(reader.whole, "orchestrator")? else { return Ok(None) };
    let Some(part) = reader.part(ours, "orchestrator.cursor")? else { return Ok(None) };
    let root = reader.optional_id(part, "orchestrator.cursor.root")?;
    let scion = reader.optional_id(part, "orchestrator.cursor.scion")?;
    let pushed: u64 = reader.natural(part, "orchestrator.cursor.pushed")?;
    let remaining = match (root, scion) {
        (Some(root), Some(scion)) => Remaining::From { root, scion },
        _ if pushed == 0 => Remaining::All,
        _ => Remaining::Nothing,
    };
    Ok(Some(Cursor {
        page_size: reader.natural(part, "orchestrator.cursor.page_size")?,
        roots: SetSummary {
            count: reader.natural(part, "orchestrator.cursor.roots")?,
            greatest: reader.optional_id(part, "orchestrator.cursor.greatest_root")?,
        },
        scions: SetSummary {
            count: reader.natural(part, "orchestrator.cursor.scions")?,
            greatest: reader.optional_id(part, "orchestrator.cursor.greatest_scion")?,
        },
        remaining,
        pushed,
        epoch: reader.natural(part, "orchestrator.cursor.epoch")?,
        attempt: reader.natural(part, "orchestrator.cursor.attempt")?,
    }))
}

pub(super) fn cursor(cursor: &Cursor) -> Document {
    let optional = |id: Option<Id>| id.map_or(Bson::Null, |id| Bson::ObjectId(object_id(id)));
    let (root, scion) = match cursor.remaining {
        Remaining::From { root, scion } => (Some(root), Some(scion)),
        Remaining::All | Remaining::Nothing => (None, None),
    };
    doc! {
        "page_size": long(cursor.page_size.into()),
        "root": optional(root),
        "scion": optional(scion),
        "pushed": long(cursor.pushed),
        "total": long(cursor.total()),
        "roots": long(cursor.roots.count),
        "greatest_root": optional(cursor.roots.greatest),
        "scions": long(cursor.scions.count),
        "greatest_scion": optional(cursor.scions.greatest),
        "epoch": long(cursor.epoch),
        "attempt": long(cursor.attempt.into()),
    }
}

/// Reads the lease from the configuration document.
pub(super) fn lease(collection: &str, found: &Document) -> Result<Option<Lease>, InvalidDocument> {
    let reader = DocumentReader { collection, whole: found };
    let Some(ours) = reader.part(found, "orchestrator")? else { return Ok(None) };
    let Some(part) = reader.part(ours, "orchestrator.lease")? else { return Ok(None) };
    let holder = match part.get("holder") {
        Some(Bson::String(holder)) => holder.clone(),
        other => return Err(reader.invalid("orchestrator.lease.holder", other, "a text")),
    };
    Ok(Some(Lease {
        holder,
        epoch: reader.natural(part, "orchestrator.lease.epoch")?,
        until_ms: reader.integer(part, "orchestrator.lease.until_ms")?,
    }))
}

/// The shortest integer type, as other programs write it.
pub(super) fn number(value: i64) -> Bson {
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

/// An integer of 64 bits, for fields that only this program writes.
pub(super) fn long(value: u64) -> Bson {
    Bson::Int64(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
