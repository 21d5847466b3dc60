//! Messages whose first part, a JSON object, tells what they are.

use bytes::Bytes;

use crate::protocol::{
    json::Object,
    machine::{Kind, invalid},
};

/// What a message of the protocol `typ` is, by the `kind` of its first part.
pub(super) fn classify(typ: &str, parts: &[Bytes], kind: impl FnOnce(&Object<'_>) -> Option<Kind>) -> Kind {
    let kind = parts.first().and_then(|part| Object::parse(part)).and_then(|header| kind(&header));
    kind.unwrap_or_else(|| Kind::Invalid(invalid(typ, parts)))
}

/// The kind of a header by its `htype`. Without one it is what it has most fields of: the original's choice among several that fit.
pub(super) fn by_htype(header: &Object<'_>, image: impl Fn(&Object<'_>) -> Option<Kind>) -> Option<Kind> {
    let start = || header.has_string("filename").then_some(Kind::Start);
    let Some(name) = header.get("htype") else {
        return image(header).or_else(start).or(Some(Kind::End));
    };
    match name.string()?.as_ref() {
        "image" => image(header),
        "header" => start(),
        "series_end" => Some(Kind::End),
        _ => None,
    }
}
