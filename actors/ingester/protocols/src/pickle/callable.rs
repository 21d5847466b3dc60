//! Results of the few callables with which Python and numpy write scalars. Other callables give
//! opaque values; none is called.

use std::{cell::Cell, rc::Rc};

use crate::{
    lax,
    pickle::value::{Blob, Callable, Dtype, StackItem, Text},
};

/// Longest text or bytes that are decoded.
const DECODED_MAX: usize = 4096;

pub(super) fn global<'a>(module: &[u8], name: &[u8]) -> StackItem<'a> {
    StackItem::Callable(match (module, name) {
        (b"collections", b"OrderedDict") => Callable::OrderedDict,
        (b"_codecs", b"encode") => Callable::Encode,
        (b"builtins" | b"__builtin__", b"bytes") => Callable::Bytes,
        (b"builtins" | b"__builtin__", b"bytearray") => Callable::ByteArray,
        (b"decimal", b"Decimal") => Callable::Decimal,
        (b"numpy", b"dtype") => Callable::NumpyDtype,
        (b"numpy.core.multiarray" | b"numpy._core.multiarray", b"scalar") => Callable::NumpyScalar,
        (b"numpy.core.multiarray" | b"numpy._core.multiarray", b"_reconstruct") => Callable::NumpyReconstruct,
        (b"numpy.core.numeric" | b"numpy._core.numeric", b"_frombuffer") => Callable::NumpyFromBuffer,
        _ => return StackItem::Opaque,
    })
}

/// Result of calling `callable`.
pub(super) fn call<'a>(callable: &StackItem<'a>, arguments: &StackItem<'a>) -> StackItem<'a> {
    let (StackItem::Callable(callable), StackItem::Tuple(arguments)) = (callable, arguments) else {
        return StackItem::Opaque;
    };
    match (callable, &arguments[..]) {
        (Callable::OrderedDict, _) => StackItem::Dict(Rc::default()),
        (Callable::Encode, [StackItem::Text(text), ..]) => {
            latin1(text).map_or(StackItem::Opaque, StackItem::Bytes)
        }
        (Callable::Bytes, []) => StackItem::Bytes(Blob::Read(&[])),
        (Callable::ByteArray, []) => StackItem::ByteArray(Blob::Read(&[])),
        (Callable::ByteArray, [StackItem::Bytes(bytes)]) => StackItem::ByteArray(bytes.clone()),
        (Callable::ByteArray, [StackItem::Text(text), ..]) => {
            latin1(text).map_or(StackItem::Unhashable, StackItem::ByteArray)
        }
        (Callable::Decimal, [StackItem::Text(text)]) => {
            lax::float_text(text).map_or(StackItem::Opaque, StackItem::Float)
        }
        (Callable::NumpyDtype, [StackItem::Text(code), ..]) => dtype(code),
        (Callable::NumpyScalar, [StackItem::Dtype(dtype), StackItem::Bytes(bytes)]) => {
            scalar(dtype.get(), bytes)
        }
        (Callable::NumpyReconstruct, _) => StackItem::Array(Rc::default()),
        (
            Callable::NumpyFromBuffer,
            [StackItem::Bytes(bytes) | StackItem::ByteArray(bytes), StackItem::Dtype(dtype), ..],
        ) => StackItem::Array(Rc::new(Cell::new(number(dtype.get(), bytes)))),
        (Callable::NumpyFromBuffer, _) => StackItem::Array(Rc::default()),
        _ => StackItem::Opaque,
    }
}

/// Applies `state` to `item`, which is shared with all its references.
pub(super) fn build(item: &StackItem<'_>, state: &StackItem<'_>) {
    let StackItem::Tuple(state) = state else { return };
    match (item, &state[..]) {
        (StackItem::Dtype(dtype), [_, StackItem::Text(order), ..]) => {
            dtype.set(Dtype { big_endian: &**order == ">", ..dtype.get() });
        }
        (StackItem::Array(value), [_, _, StackItem::Dtype(dtype), _, StackItem::Bytes(bytes)]) => {
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

/// Parses `f8`, `<i4`, `U5`, `b1`.
fn dtype<'a>(code: &str) -> StackItem<'a> {
    let big_endian = code.starts_with('>');
    let mut rest = code.trim_start_matches(['<', '>', '=', '|']).chars();
    let kind = rest.next().and_then(|kind| u8::try_from(kind).ok());
    match (kind, rest.as_str().parse()) {
        (Some(kind), Ok(size)) => StackItem::Dtype(Rc::new(Cell::new(Dtype { kind, size, big_endian }))),
        _ => StackItem::Opaque,
    }
}

/// Number of an array with one element.
fn number(dtype: Dtype, bytes: &[u8]) -> Option<f64> {
    match scalar(dtype, bytes) {
        StackItem::Float(float) if bytes.len() == dtype.size => Some(float),
        StackItem::Bool(truth) => Some(truth.into()),
        _ => None,
    }
}

fn scalar<'a>(dtype: Dtype, bytes: &[u8]) -> StackItem<'a> {
    let mut bytes = bytes[..bytes.len().min(DECODED_MAX)].to_vec();
    if dtype.big_endian && dtype.kind != b'U' {
        bytes.reverse();
    }
    match (dtype.kind, &bytes[..]) {
        (b'b', [byte]) => StackItem::Bool(*byte != 0),
        // numpy's integers are converted through floats.
        (b'i' | b'u', [.., high]) if bytes.len() <= 8 => {
            let fill = if dtype.kind == b'i' && *high >= 0x80 { 0xff } else { 0 };
            let mut whole = [fill; 8];
            whole[..bytes.len()].copy_from_slice(&bytes);
            let unsigned = u64::from_le_bytes(whole);
            StackItem::Float(if dtype.kind == b'i' { unsigned.cast_signed() as f64 } else { unsigned as f64 })
        }
        (b'f', &[a, b, c, d]) => StackItem::Float(f32::from_le_bytes([a, b, c, d]).into()),
        (b'f', &[a, b, c, d, e, f, g, h]) => StackItem::Float(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        (b'f', _) => StackItem::Number,
        (b'U', _) => text(&bytes, dtype.big_endian),
        _ => StackItem::Opaque,
    }
}

/// numpy's text: four bytes for each character.
fn text<'a>(bytes: &[u8], big_endian: bool) -> StackItem<'a> {
    let text: Option<String> = bytes
        .chunks_exact(4)
        .map(|unit| {
            let unit: [u8; 4] = unit.try_into().ok()?;
            char::from_u32(if big_endian { u32::from_be_bytes(unit) } else { u32::from_le_bytes(unit) })
        })
        .collect();
    text.map_or(StackItem::Opaque, |text| StackItem::Text(Text::Made(text.trim_end_matches('\0').into())))
}
