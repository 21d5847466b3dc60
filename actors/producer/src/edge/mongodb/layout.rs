//! Documents, read by type: what is not as it should be is told with its collection, document and field.

use mongodb::bson::{Bson, Document, doc, oid::ObjectId};
use orchestrator_supervise::sanitize_to;

use crate::{
    cursor::{Census, Cursor, Rest},
    id::Id,
    lease::Lease,
    stencil::{Ledger, Misread, Stencil},
};

/// The `_id` of the configuration document.
pub(super) const CONFIG: &str = "config";

const INTEGER: &str = "an integer";
const IDENTIFIER: &str = "an ObjectId";
const DOCUMENT: &str = "a document";

/// A document of which errors can be told.
struct Reading<'a> {
    collection: &'a str,
    whole: &'a Document,
}

impl Reading<'_> {
    fn misread(&self, field: &'static str, found: Option<&Bson>, wanted: &'static str) -> Misread {
        let id = match self.whole.get("_id") {
            Some(Bson::ObjectId(id)) => id.to_hex(),
            Some(Bson::String(id)) => sanitize_to(id, 100),
            Some(Bson::Int32(id)) => id.to_string(),
            Some(Bson::Int64(id)) => id.to_string(),
            Some(other) => words(Some(other)),
            None => "without _id".to_owned(),
        };
        Misread { collection: self.collection.to_owned(), id, field, found: words(found), wanted }
    }

    fn integer(&self, part: &Document, field: &'static str) -> Result<i64, Misread> {
        match part.get(last(field)) {
            Some(Bson::Int32(number)) => Ok((*number).into()),
            Some(Bson::Int64(number)) => Ok(*number),
            other => Err(self.misread(field, other, INTEGER)),
        }
    }

    /// A number that we wrote, and that is never negative.
    fn natural<T: TryFrom<i64>>(&self, part: &Document, field: &'static str) -> Result<T, Misread> {
        let number = self.integer(part, field)?;
        number.try_into().map_err(|_| self.misread(field, part.get(last(field)), "a number that fits"))
    }

    fn id(&self, part: &Document, field: &'static str) -> Result<Id, Misread> {
        match part.get(last(field)) {
            Some(Bson::ObjectId(id)) => Ok(Id(id.bytes())),
            other => Err(self.misread(field, other, IDENTIFIER)),
        }
    }

    fn optional_id(&self, part: &Document, field: &'static str) -> Result<Option<Id>, Misread> {
        match part.get(last(field)) {
            None | Some(Bson::Null) => Ok(None),
            Some(_) => self.id(part, field).map(Some),
        }
    }

    fn part<'d>(&self, whole: &'d Document, field: &'static str) -> Result<Option<&'d Document>, Misread> {
        match whole.get(last(field)) {
            None | Some(Bson::Null) => Ok(None),
            Some(Bson::Document(part)) => Ok(Some(part)),
            other => Err(self.misread(field, other, DOCUMENT)),
        }
    }
}

/// The name of a field in its part of the document.
fn last(path: &'static str) -> &'static str {
    path.rsplit('.').next().unwrap_or(path)
}

fn words(found: Option<&Bson>) -> String {
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

/// The `_id` of a tangle.
pub(super) fn id(collection: &str, found: &Document) -> Result<Id, Misread> {
    Reading { collection, whole: found }.id(found, "_id")
}

/// An identifier as the database has it.
pub(super) fn object_id(id: Id) -> ObjectId {
    ObjectId::from_bytes(id.0)
}

/// The configuration document.
pub(super) fn ledger(collection: &str, found: &Document) -> Result<Ledger, Misread> {
    let reading = Reading { collection, whole: found };
    Ok(Ledger {
        completed_tcn: reading.integer(found, "current_completed_tcn")?,
        max_tcn: reading.integer(found, "max_tcn")?,
    })
}

/// A stencil. The original reads neither its TCN nor a cursor; `strict` takes a TCN of any kind of number.
pub(super) fn stencil(collection: &str, found: &Document, strict: bool) -> Result<Stencil, Misread> {
    let reading = Reading { collection, whole: found };
    let tcn = match found.get("TCN") {
        Some(Bson::Double(number)) if strict => *number as i64,
        _ => reading.integer(found, "TCN")?,
    };
    Ok(Stencil {
        id: reading.id(found, "_id")?,
        tcn,
        rootstock_tcn: reading.integer(found, "rootstock_tcn")?,
        scion_tcn: reading.integer(found, "scion_tcn")?,
        state: reading.integer(found, "state")?.into(),
        cursor: if strict { None } else { read_cursor(&reading)? },
    })
}

fn read_cursor(reading: &Reading<'_>) -> Result<Option<Cursor>, Misread> {
    let Some(ours) = reading.part(reading.whole, "orchestrator")? else { return Ok(None) };
    let Some(part) = reading.part(ours, "orchestrator.cursor")? else { return Ok(None) };
    let root = reading.optional_id(part, "orchestrator.cursor.root")?;
    let scion = reading.optional_id(part, "orchestrator.cursor.scion")?;
    let pushed: u64 = reading.natural(part, "orchestrator.cursor.pushed")?;
    let rest = match (root, scion) {
        (Some(root), Some(scion)) => Rest::From { root, scion },
        _ if pushed == 0 => Rest::All,
        _ => Rest::Nothing,
    };
    Ok(Some(Cursor {
        page_size: reading.natural(part, "orchestrator.cursor.page_size")?,
        roots: Census {
            count: reading.natural(part, "orchestrator.cursor.roots")?,
            greatest: reading.optional_id(part, "orchestrator.cursor.greatest_root")?,
        },
        scions: Census {
            count: reading.natural(part, "orchestrator.cursor.scions")?,
            greatest: reading.optional_id(part, "orchestrator.cursor.greatest_scion")?,
        },
        rest,
        pushed,
        epoch: reading.natural(part, "orchestrator.cursor.epoch")?,
        attempt: reading.natural(part, "orchestrator.cursor.attempt")?,
    }))
}

/// A cursor: pages by their first tangles, and the sets as they were.
pub(super) fn cursor(cursor: &Cursor) -> Document {
    let optional = |id: Option<Id>| id.map_or(Bson::Null, |id| Bson::ObjectId(object_id(id)));
    let (root, scion) = match cursor.rest {
        Rest::From { root, scion } => (Some(root), Some(scion)),
        Rest::All | Rest::Nothing => (None, None),
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

/// The lease in the configuration document.
pub(super) fn lease(collection: &str, found: &Document) -> Result<Option<Lease>, Misread> {
    let reading = Reading { collection, whole: found };
    let Some(ours) = reading.part(found, "orchestrator")? else { return Ok(None) };
    let Some(part) = reading.part(ours, "orchestrator.lease")? else { return Ok(None) };
    let holder = match part.get("holder") {
        Some(Bson::String(holder)) => holder.clone(),
        other => return Err(reading.misread("orchestrator.lease.holder", other, "a text")),
    };
    Ok(Some(Lease {
        holder,
        epoch: reading.natural(part, "orchestrator.lease.epoch")?,
        until_ms: reading.integer(part, "orchestrator.lease.until_ms")?,
    }))
}

/// An integer as small as it goes: what other programs wrote as 32 bits stays so.
pub(super) fn number(value: i64) -> Bson {
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

/// A number of ours.
pub(super) fn long(value: u64) -> Bson {
    Bson::Int64(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
