//! The few callables whose results are told: what Python and numpy write scalars with. No other is anything but opaque, and none
//! is ever called.

use std::{cell::Cell, rc::Rc};

use crate::protocol::{
    lax,
    pickle::value::{Blob, Callable, Dtype, Text, Thing},
};

/// Longer text and bytes are not decoded.
const DECODED_MAX: usize = 4096;

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
        (Callable::NumpyScalar, [Thing::Dtype(dtype), Thing::Bytes(bytes)]) => scalar(dtype.get(), bytes),
        (Callable::NumpyReconstruct, _) => Thing::Array(Rc::default()),
        (
            Callable::NumpyFromBuffer,
            [Thing::Bytes(bytes) | Thing::ByteArray(bytes), Thing::Dtype(dtype), ..],
        ) => Thing::Array(Rc::new(Cell::new(number(dtype.get(), bytes)))),
        (Callable::NumpyFromBuffer, _) => Thing::Array(Rc::default()),
        _ => Thing::Opaque,
    }
}

/// Gives `state` to `thing`, wherever else it lies.
pub(super) fn build(thing: &Thing<'_>, state: &Thing<'_>) {
    let Thing::Tuple(state) = state else { return };
    match (thing, &state[..]) {
        (Thing::Dtype(dtype), [_, Thing::Text(order), ..]) => {
            dtype.set(Dtype { big_endian: &**order == ">", ..dtype.get() });
        }
        (Thing::Array(value), [_, _, Thing::Dtype(dtype), _, Thing::Bytes(bytes)]) => {
            value.set(number(dtype.get(), bytes));
        }
        _ => {}
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
        (Some(kind), Ok(size)) => Thing::Dtype(Rc::new(Cell::new(Dtype { kind, size, big_endian }))),
        _ => Thing::Opaque,
    }
}

/// An array of one element is a number, too.
fn number(dtype: Dtype, bytes: &[u8]) -> Option<f64> {
    match scalar(dtype, bytes) {
        Thing::Float(float) if bytes.len() == dtype.size => Some(float),
        Thing::Bool(truth) => Some(truth.into()),
        _ => None,
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
