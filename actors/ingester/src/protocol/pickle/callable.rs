//! The few callables whose results are told: what Python and numpy write scalars with. No other is anything but opaque, and none
//! is ever called.

use std::rc::Rc;

use crate::protocol::{
    lax,
    pickle::value::{Blob, Text, Thing},
};

/// Longer text and bytes are not decoded.
const DECODED_MAX: usize = 4096;

/// A global that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callable {
    OrderedDict,
    /// `_codecs.encode`: how protocols 0 to 2 write bytes.
    Encode,
    Bytes,
    ByteArray,
    Decimal,
    NumpyDtype,
    NumpyScalar,
    NumpyReconstruct,
    NumpyFromBuffer,
}

/// A numpy type: its letter, its size in bytes, its byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dtype {
    kind: u8,
    size: usize,
    big_endian: bool,
}

pub(super) fn global<'a>(module: &[u8], name: &[u8]) -> Thing<'a> {
    Thing::Callable(match (module, name) {
        (b"collections", b"OrderedDict") => Callable::OrderedDict,
        (b"_codecs", b"encode") => Callable::Encode,
        (b"builtins" | b"__builtin__", b"bytes") => Callable::Bytes,
        (b"builtins" | b"__builtin__", b"bytearray") => Callable::ByteArray,
        (b"decimal", b"Decimal") => Callable::Decimal,
        (b"numpy", b"dtype") => Callable::NumpyDtype,
        (b"numpy.core.multiarray" | b"numpy._core.multiarray", b"scalar") => Callable::NumpyScalar,
        (b"numpy.core.multiarray" | b"numpy._core.multiarray", b"_reconstruct") => Callable::NumpyReconstruct,
        (b"numpy.core.numeric" | b"numpy._core.numeric", b"_frombuffer") => Callable::NumpyFromBuffer,
        _ => return Thing::Opaque,
    })
}

/// What calling `callable` gives.
pub(super) fn call<'a>(callable: &Thing<'a>, arguments: &Thing<'a>) -> Thing<'a> {
    let (Thing::Callable(callable), Thing::Tuple(arguments)) = (callable, arguments) else {
        return Thing::Opaque;
    };
    match (callable, &arguments[..]) {
        (Callable::OrderedDict, _) => Thing::Dict(Rc::default()),
        (Callable::Encode, [Thing::Text(text), ..]) => latin1(text).map_or(Thing::Opaque, Thing::Bytes),
        (Callable::Bytes, []) => Thing::Bytes(Blob::Read(&[])),
        (Callable::ByteArray, []) => Thing::ByteArray(Blob::Read(&[])),
        (Callable::ByteArray, [Thing::Bytes(bytes)]) => Thing::ByteArray(bytes.clone()),
        (Callable::ByteArray, [Thing::Text(text), ..]) => {
            latin1(text).map_or(Thing::Unhashable, Thing::ByteArray)
        }
        (Callable::Decimal, [Thing::Text(text)]) => lax::float_text(text).map_or(Thing::Opaque, Thing::Float),
        (Callable::NumpyDtype, [Thing::Text(code), ..]) => dtype(code),
        (Callable::NumpyScalar, [Thing::Dtype(dtype), Thing::Bytes(bytes)]) => scalar(*dtype, bytes),
        (Callable::NumpyReconstruct, _) => Thing::Array,
        (
            Callable::NumpyFromBuffer,
            [Thing::Bytes(bytes) | Thing::ByteArray(bytes), Thing::Dtype(dtype), ..],
        ) => array(*dtype, bytes),
        (Callable::NumpyFromBuffer, _) => Thing::Array,
        _ => Thing::Opaque,
    }
}

/// What giving `state` to `thing` makes of it.
pub(super) fn build<'a>(thing: &Thing<'a>, state: &Thing<'a>) -> Option<Thing<'a>> {
    match (thing, state) {
        (Thing::Dtype(dtype), Thing::Tuple(state)) => {
            let big_endian = matches!(state.get(1), Some(Thing::Text(order)) if &**order == ">");
            Some(Thing::Dtype(Dtype { big_endian, ..*dtype }))
        }
        (Thing::Array, Thing::Tuple(state)) => match &state[..] {
            [_, _, Thing::Dtype(dtype), _, Thing::Bytes(bytes)] => Some(array(*dtype, bytes)),
            _ => None,
        },
        _ => None,
    }
}

fn latin1<'a>(text: &str) -> Option<Blob<'a>> {
    if text.len() > DECODED_MAX {
        return None;
    }
    let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    bytes.map(|bytes| Blob::Made(bytes.into()))
}

/// `f8`, `<i4`, `U5`, `b1`.
fn dtype<'a>(code: &str) -> Thing<'a> {
    let big_endian = code.starts_with('>');
    let mut rest = code.trim_start_matches(['<', '>', '=', '|']).chars();
    let kind = rest.next().and_then(|kind| u8::try_from(kind).ok());
    match (kind, rest.as_str().parse()) {
        (Some(kind), Ok(size)) => Thing::Dtype(Dtype { kind, size, big_endian }),
        _ => Thing::Opaque,
    }
}

/// An array of one element is a number, too; others are arrays.
fn array<'a>(dtype: Dtype, bytes: &[u8]) -> Thing<'a> {
    match dtype.kind {
        b'b' | b'i' | b'u' | b'f' if bytes.len() == dtype.size => scalar(dtype, bytes),
        _ => Thing::Array,
    }
}

fn scalar<'a>(dtype: Dtype, bytes: &[u8]) -> Thing<'a> {
    let mut bytes = bytes[..bytes.len().min(DECODED_MAX)].to_vec();
    if dtype.big_endian && dtype.kind != b'U' {
        bytes.reverse();
    }
    match (dtype.kind, &bytes[..]) {
        (b'b', [byte]) => Thing::Bool(*byte != 0),
        // numpy's integers are taken through floats.
        (b'i' | b'u', [.., high]) if bytes.len() <= 8 => {
            let fill = if dtype.kind == b'i' && *high >= 0x80 { 0xff } else { 0 };
            let mut whole = [fill; 8];
            whole[..bytes.len()].copy_from_slice(&bytes);
            let unsigned = u64::from_le_bytes(whole);
            Thing::Float(if dtype.kind == b'i' { unsigned.cast_signed() as f64 } else { unsigned as f64 })
        }
        (b'f', &[a, b, c, d]) => Thing::Float(f32::from_le_bytes([a, b, c, d]).into()),
        (b'f', &[a, b, c, d, e, f, g, h]) => Thing::Float(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        (b'f', _) => Thing::Number,
        (b'U', _) => text(&bytes, dtype.big_endian),
        _ => Thing::Opaque,
    }
}

/// numpy's text: four bytes a character.
fn text<'a>(bytes: &[u8], big_endian: bool) -> Thing<'a> {
    let text: Option<String> = bytes
        .chunks_exact(4)
        .map(|unit| {
            let unit: [u8; 4] = unit.try_into().ok()?;
            char::from_u32(if big_endian { u32::from_be_bytes(unit) } else { u32::from_le_bytes(unit) })
        })
        .collect();
    text.map_or(Thing::Opaque, |text| Thing::Text(Text::Made(text.trim_end_matches('\0').into())))
}
