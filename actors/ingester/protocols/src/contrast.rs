//! Contrast, a beamline's orchestration in Python (CONTRACT IP21). `ZmqSubContrastIngester`. The
//! original unpickles messages, which can run code of the sender; here only opcodes are parsed.

use bytes::Bytes;

use crate::{
    lax,
    machine::{Classify, Kind, excerpt, invalid},
    pickle::{TopDict, Value, read_dict},
};

/// Members that determine the kind of a message.
const FIELDS: &[&str] = &["status", "path", "scannr", "description", "dt"];

/// Classifier of Contrast's messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Contrast;

impl Classify for Contrast {
    const TYP: &'static str = "contrast";

    fn classify(&mut self, parts: &[Bytes]) -> Kind {
        let Some(part) = parts.first() else {
            return Kind::Invalid(invalid(Self::TYP, parts));
        };
        match read_dict(part, FIELDS) {
            Ok(top) => kind(&top).unwrap_or_else(|| {
                let has = excerpt(format!("{:?}", top.members));
                Kind::Invalid(format!("invalid contrast message: check what the sender writes: it has {has}"))
            }),
            Err(error) => {
                Kind::Invalid(format!("invalid contrast message: {error}: check what the sender writes"))
            }
        }
    }
}

fn kind(top: &TopDict) -> Option<Kind> {
    let status = match top.get("status") {
        Some(Value::Text(status)) => Some(status.as_str()),
        Some(_) => return None,
        None => None,
    };
    if status == Some("heartbeat") {
        return Some(Kind::Nothing);
    }
    if !top.only_string_keys {
        return None;
    }
    let scan = is_text(top, "path") && is_int(top, "scannr") && is_text(top, "description");
    match status {
        Some("started") => scan.then_some(Kind::Start),
        Some("finished") => scan.then_some(Kind::End),
        Some("running") => is_float(top, "dt").then_some(Kind::Data(None)),
        Some(_) => None,
        // Without a status the fields decide, a start before an end.
        None if scan => Some(Kind::Start),
        None => is_float(top, "dt").then_some(Kind::Data(None)),
    }
}

fn is_text(top: &TopDict, name: &str) -> bool {
    match top.get(name) {
        Some(Value::Text(_)) => true,
        Some(Value::Bytes(bytes) | Value::ByteArray(bytes)) => std::str::from_utf8(bytes).is_ok(),
        _ => false,
    }
}

fn is_int(top: &TopDict, name: &str) -> bool {
    let in_text = |text: &str| lax::int_text(text).is_some();
    match top.get(name) {
        Some(Value::Int(_) | Value::Bool(_) | Value::Wide(_) | Value::Number) => true,
        Some(Value::Float(float)) => lax::int_float(*float).is_some(),
        Some(Value::Text(text)) => in_text(text),
        Some(Value::Bytes(bytes)) => std::str::from_utf8(bytes).is_ok_and(in_text),
        _ => false,
    }
}

fn is_float(top: &TopDict, name: &str) -> bool {
    let in_text = |text: &str| lax::float_text(text).is_some();
    match top.get(name) {
        Some(Value::Int(_) | Value::Bool(_) | Value::Float(_) | Value::Wide(true) | Value::Number) => true,
        Some(Value::Text(text)) => in_text(text),
        Some(Value::Bytes(bytes)) => std::str::from_utf8(bytes).is_ok_and(in_text),
        _ => false,
    }
}
