//! JSON view of a CBOR message, for people. Byte strings are shown by their length.

use minicbor::{Decoder, data::Type};
use orchestrator_ingester_protocols::machine::excerpt;
use serde_json::{Map, Value, json};

/// Deepest nesting.
const DEPTH: u8 = 16;
/// Most values of a message. A message with more is not decoded.
const VALUES_MAX: u32 = 4_096;
/// Tag of a time as text.
const TIME: u64 = 0;
/// Tag of self-described CBOR.
const SELF_DESCRIBED: u64 = 55_799;

/// The message as a JSON object; None if it is not one map with text keys.
pub(super) fn map_to_json(part: &[u8]) -> Option<Value> {
    let mut view = View { cbor: Decoder::new(part), values_left: VALUES_MAX };
    let value = view.value(0)?;
    (value.is_object() && view.cbor.position() == part.len()).then_some(value)
}

struct View<'a> {
    cbor: Decoder<'a>,
    values_left: u32,
}

impl View<'_> {
    fn value(&mut self, depth: u8) -> Option<Value> {
        self.values_left = self.values_left.checked_sub(1)?;
        if depth > DEPTH {
            return None;
        }
        let cbor = &mut self.cbor;
        Some(match cbor.datatype().ok()? {
            Type::Bool => json!(cbor.bool().ok()?),
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => json!(cbor.u64().ok()?),
            Type::I8 | Type::I16 | Type::I32 | Type::I64 => json!(cbor.i64().ok()?),
            Type::F32 => json!(cbor.f32().ok()?),
            Type::F64 => json!(cbor.f64().ok()?),
            Type::Bytes => json!(format!("{} bytes", cbor.bytes().ok()?.len())),
            Type::String => json!(excerpt(cbor.str().ok()?)),
            Type::Array | Type::ArrayIndef => {
                let (mut left, mut elements) = (cbor.array().ok()?, Vec::new());
                while self.has_next(&mut left)? {
                    elements.push(self.value(depth + 1)?);
                }
                Value::Array(elements)
            }
            Type::Map | Type::MapIndef => {
                let (mut left, mut members) = (cbor.map().ok()?, Map::new());
                while self.has_next(&mut left)? {
                    let key = excerpt(self.cbor.str().ok()?);
                    members.insert(key, self.value(depth + 1)?);
                }
                Value::Object(members)
            }
            Type::Tag => {
                let tag = cbor.tag().ok()?.as_u64();
                let inner = self.value(depth + 1)?;
                if [TIME, SELF_DESCRIBED].contains(&tag) {
                    inner
                } else {
                    json!({ format!("tag {tag}"): inner })
                }
            }
            Type::F16 | Type::Null | Type::Undefined | Type::Simple | Type::Int => {
                cbor.skip().ok()?;
                Value::Null
            }
            Type::BytesIndef | Type::StringIndef | Type::Break | Type::Unknown(_) => return None,
        })
    }

    /// True if an element follows; None if the message is cut off.
    fn has_next(&mut self, left: &mut Option<u64>) -> Option<bool> {
        let Some(left) = left else {
            let ends = self.cbor.datatype().ok()? == Type::Break;
            self.cbor.set_position(self.cbor.position() + usize::from(ends));
            return Some(!ends);
        };
        let more = *left > 0;
        *left = left.saturating_sub(1);
        Some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_shown_without_its_bytes() {
        let part = b"\xd9\xd9\xf7\xbf\x64type\x65image\x61d\xd8\x28\x82\x82\x02\x03\xd8\x45\x46123456\x61f\xf9\x3c\x00\x61n\x20\xff";
        let expected =
            json!({"type": "image", "d": {"tag 40": [[2, 3], {"tag 69": "6 bytes"}]}, "f": null, "n": -1});
        assert_eq!(map_to_json(part), Some(expected));
    }

    #[test]
    fn anything_else_is_not_shown() {
        let deep = [&b"\xa1\x61u"[..], &[0x81; 100], b"\x00"].concat();
        let wide = [&b"\xa1\x61u\x99\xff\xff"[..], &[0; 65_535]].concat();
        for part in [
            &b""[..],
            b"\x80",
            b"\xa0\x00",
            b"\xa1\x00\x00",
            b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
            &deep,
            &wide,
        ] {
            assert_eq!(map_to_json(part), None, "{}", part[..part.len().min(9)].escape_ascii());
        }
        assert_eq!(
            map_to_json(b"\xa1\x63\x1b[m\x63\x1b[m").map(|shown| shown.to_string().contains('\u{1b}')),
            Some(false)
        );
    }
}
