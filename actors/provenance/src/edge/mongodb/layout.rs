//! Documents (CONTRACT PD10 to PD12): fields and values.

use bytes::Bytes;
use mongodb::bson::{
    Binary, Bson, Document, RawBsonRef, RawDocument, doc, oid::ObjectId, spec::BinarySubtype,
};

use super::error::{document_name, shortened};
use crate::{
    method::{Entity, Relation},
    row::{Date, Sha1Git},
    store::StoreError,
};

/// Field in the source's document, named after the destination's collection (CONTRACT PD12).
pub(super) fn field(relation: Relation) -> &'static str {
    relation.destination().value()
}

/// Relations stored in documents of `entity`.
pub(super) fn relations_of(entity: Entity) -> impl Iterator<Item = Relation> {
    Relation::ALL.into_iter().filter(move |relation| relation.source() == entity)
}

/// Fields of a new document besides `_id` and `sha1`. Readers rely on the empty ones. Not for origins.
pub(super) fn new_fields(entity: Entity, date: Option<Date>) -> Document {
    let mut fields = doc! { "ts": date.map_or(Bson::Null, seconds) };
    for relation in relations_of(entity) {
        let empty = if relation.has_path() { Bson::Document(doc! {}) } else { Bson::Array(Vec::new()) };
        fields.insert(field(relation), empty);
    }
    fields
}

/// `ts`: seconds since 1970 as a double, rounded as in Python.
pub(super) fn seconds(date: Date) -> Bson {
    Bson::Double(date.micros() as f64 / 1e6)
}

/// Bytes with the subtype that the original's driver uses.
pub(super) fn binary(bytes: &[u8]) -> Bson {
    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() })
}

pub(super) fn binaries<'a>(ids: impl IntoIterator<Item = &'a Sha1Git>) -> Vec<Bson> {
    ids.into_iter().map(|id| binary(&id.0)).collect()
}

/// `_id` of the document.
pub(super) fn key(document: &RawDocument) -> Result<ObjectId, StoreError> {
    document.get_object_id("_id").map_err(|error| unexpected(document, "_id", &error))
}

pub(super) fn sha1(document: &RawDocument) -> Result<Sha1Git, StoreError> {
    identifier(document, "sha1")?.ok_or_else(|| unexpected(document, "sha1", &"missing"))
}

/// The identifier may be null.
pub(super) fn identifier(document: &RawDocument, name: &str) -> Result<Option<Sha1Git>, StoreError> {
    match value(document, name)? {
        RawBsonRef::Null => Ok(None),
        RawBsonRef::Binary(found) => found
            .bytes
            .try_into()
            .map(|id| Some(Sha1Git(id)))
            .map_err(|error| unexpected(document, name, &error)),
        other => Err(unexpected(document, name, &other)),
    }
}

/// 0.0 is a date; the original's reader treats it as missing in a revision.
pub(super) fn date(document: &RawDocument) -> Result<Option<Date>, StoreError> {
    let ts = match value(document, "ts")? {
        RawBsonRef::Null => return Ok(None),
        RawBsonRef::Double(ts) => ts,
        // Integers come from manual changes.
        RawBsonRef::Int32(ts) => f64::from(ts),
        RawBsonRef::Int64(ts) => ts as f64,
        other => return Err(unexpected(document, "ts", &other)),
    };
    if !ts.is_finite() {
        return Err(unexpected(document, "ts", &ts));
    }
    // Separate, since the product would lose the microseconds of large values.
    let whole = ts.floor();
    let micros = ((ts - whole) * 1e6).round_ties_even() as i64;
    let micros = (whole as i64).checked_mul(1_000_000).and_then(|seconds| seconds.checked_add(micros));
    micros.and_then(Date::from_micros).map(Some).ok_or_else(|| unexpected(document, "ts", &ts))
}

/// Calls `each` with the `_id` of each destination of `relation` in `document`, once for each path.
pub(super) fn each_row(
    document: &RawDocument,
    relation: Relation,
    each: &mut dyn FnMut(ObjectId, Option<Bytes>),
) -> Result<(), StoreError> {
    let name = field(relation);
    match value(document, name)? {
        RawBsonRef::Document(paths) if relation.has_path() => {
            for entry in paths {
                let (id, found) = entry.map_err(|error| unexpected(document, name, &error))?;
                let id =
                    ObjectId::parse_str(id.as_str()).map_err(|error| unexpected(document, name, &error))?;
                let found = found.as_array().ok_or_else(|| unexpected(document, name, &found))?;
                for path in found {
                    match path.map_err(|error| unexpected(document, name, &error))? {
                        RawBsonRef::Binary(path) => each(id, Some(Bytes::copy_from_slice(path.bytes))),
                        other => return Err(unexpected(document, name, &other)),
                    }
                }
            }
        }
        RawBsonRef::Array(ids) if !relation.has_path() => {
            for id in ids {
                let id = id.map_err(|error| unexpected(document, name, &error))?;
                each(id.as_object_id().ok_or_else(|| unexpected(document, name, &id))?, None);
            }
        }
        // A projection omits missing fields.
        RawBsonRef::Null => {}
        other => return Err(unexpected(document, name, &other)),
    }
    Ok(())
}

/// Null if the field is missing.
fn value<'a>(document: &'a RawDocument, name: &str) -> Result<RawBsonRef<'a>, StoreError> {
    let found = document.get(name).map_err(|error| unexpected(document, name, &error))?;
    Ok(found.unwrap_or(RawBsonRef::Null))
}

/// Only a correction of the document helps, so the error belongs to that document.
fn unexpected(document: &RawDocument, name: &str, found: &impl std::fmt::Debug) -> StoreError {
    StoreError::Undecided(format!(
        "the field `{name}` of {} is not as the layout has it ({}): correct it",
        document_name(document),
        shortened(found)
    ))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::RawDocumentBuf;

    use super::*;

    fn read(ts: impl Into<Bson>) -> Option<Date> {
        date(&RawDocumentBuf::try_from(doc! { "ts": ts.into() }).unwrap()).unwrap()
    }

    #[test]
    fn dates_within_2_33_seconds_keep_their_microseconds() {
        let limit = (1 << 33) * 1_000_000_i64;
        let mut dice = fastrand::Rng::with_seed(1);
        let random = std::iter::repeat_with(|| dice.i64(-limit..limit)).take(100_000);
        for micros in [0, 1, -1, limit - 1, 1 - limit].into_iter().chain(random) {
            let date = Date::from_micros(micros).unwrap();
            assert_eq!(read(seconds(date)), Some(date), "{micros}");
        }
        for whole in [Date::MIN.micros(), Date::MAX.micros() - 999_999] {
            let date = Date::from_micros(whole).unwrap();
            assert_eq!(read(seconds(date)), Some(date), "{whole}");
        }
    }

    #[test]
    fn values_of_other_programs_are_read_or_refused() {
        assert_eq!(read(0.0), Date::from_micros(0));
        assert_eq!(read(5), Date::from_micros(5_000_000));
        assert_eq!(read(Bson::Null), None);
        for unexpected in [Bson::Double(1e30), Bson::Double(-1e12), Bson::Double(f64::NAN), Bson::from("5")] {
            let document = RawDocumentBuf::try_from(doc! { "ts": unexpected }).unwrap();
            let error = date(&document).unwrap_err().to_string();
            assert!(error.contains("`ts`"), "{error}");
        }
    }
}
