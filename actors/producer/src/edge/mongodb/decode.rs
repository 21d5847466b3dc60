//! Decoding of documents with a bound of nesting. The driver's decoder has none, so deep nesting would
//! overflow the stack.

use mongodb::bson::{Document, RawBsonRef, RawDocument};

/// Upper bound of the nesting. MongoDB stores at most 100 levels.
const DEPTH_MAX: u32 = 180;

/// Decodes `raw`.
///
/// # Errors
/// Invalid BSON, or nested too deeply.
pub(super) fn decoded(raw: &RawDocument) -> Result<Document, String> {
    check(raw, DEPTH_MAX)?;
    Document::try_from(raw).map_err(|error| error.to_string())
}

/// `_id` of an invalid document, as text.
pub(super) fn id_of(raw: &RawDocument) -> String {
    raw.get_object_id("_id").map_or_else(|_| "whose _id is no ObjectId".to_owned(), |id| id.to_hex())
}

fn check(raw: &RawDocument, depth: u32) -> Result<(), String> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(format!("nested more than {DEPTH_MAX} levels deep"));
    };
    raw.iter().try_for_each(|element| {
        let (_, value) = element.map_err(|error| error.to_string())?;
        check_value(value, depth)
    })
}

fn check_value(value: RawBsonRef<'_>, depth: u32) -> Result<(), String> {
    match value {
        RawBsonRef::Document(inner) => check(inner, depth),
        RawBsonRef::JavaScriptCodeWithScope(code) => check(code.scope, depth),
        RawBsonRef::Array(array) => {
            let Some(depth) = depth.checked_sub(1) else {
                return Err(format!("nested more than {DEPTH_MAX} levels deep"));
            };
            array
                .into_iter()
                .try_for_each(|value| check_value(value.map_err(|error| error.to_string())?, depth))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{RawDocumentBuf, doc, oid::ObjectId};
    use proptest::prelude::*;

    use super::*;

    /// Documents have the kind 3, arrays the kind 4.
    fn nested(kind: u8, levels: usize) -> RawDocumentBuf {
        // From the outside in: length, kind and empty name of each level, then a zero for each.
        let total = levels * 7 + 5;
        let mut bytes = Vec::with_capacity(total);
        for level in 0..levels {
            bytes.extend_from_slice(&((total - level * 7) as u32).to_le_bytes());
            bytes.extend_from_slice(&[kind, 0]);
        }
        bytes.extend_from_slice(&5u32.to_le_bytes());
        bytes.push(0);
        bytes.resize(total, 0);
        RawDocumentBuf::from_bytes(bytes).expect("a document")
    }

    #[test]
    fn deep_nesting_is_refused() {
        for kind in [3, 4] {
            let error = decoded(&nested(kind, 1_000_000)).expect_err("too deep");
            assert!(error.contains("180 levels"), "{error}");
            decoded(&nested(kind, 50)).expect("what a database can have");
        }
    }

    #[test]
    fn a_document_with_unusual_values_is_decoded() {
        let id = ObjectId::from_bytes([7; 12]);
        let whole = doc! { "_id": id, "a": [1, { "b": f64::NAN }], "c": "\u{202e}\0" };
        let raw = RawDocumentBuf::try_from(&whole).expect("BSON");
        let found = decoded(&raw).expect("BSON");
        assert_eq!(found.get("c"), whole.get("c"));
        assert_eq!(id_of(&raw), "07".repeat(12));
    }

    proptest! {
        #[test]
        fn damaged_documents_are_errors(at in 4usize..40, byte: u8) {
            let whole = doc! { "_id": 1, "a": [1, { "b": "text" }], "c": 2.5 };
            let mut bytes = RawDocumentBuf::try_from(&whole).expect("BSON").into_bytes();
            bytes[at] = byte;
            if let Ok(raw) = RawDocumentBuf::from_bytes(bytes) {
                // A document or an error, without a panic.
                let _ = (decoded(&raw), id_of(&raw));
            }
        }
    }
}
