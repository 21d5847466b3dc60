//! What lies on the stack of a pickle, and what is told of it.

use std::{
    cell::{Cell, RefCell},
    ops::Deref,
    rc::Rc,
};

/// Text and bytes are cut beyond: they are no number and no status then.
const TOLD_MAX: usize = 4096;

/// Longer tuples are opaque.
pub(super) const TUPLE_MAX: usize = 8;

/// A value as far as it is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer of up to 64 bits.
    Int(i64),
    /// A wider integer; is it within a float's range?
    Wide(bool),
    /// A float.
    Float(f64),
    /// A number of an opaque type that Python turns into any other.
    Number,
    /// Text, cut if it is longer than some thousand bytes.
    Text(String),
    /// Bytes, cut likewise.
    Bytes(Vec<u8>),
    /// A bytearray, cut likewise.
    ByteArray(Vec<u8>),
    /// Anything else.
    Opaque,
}

/// The dict at the top of a pickle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Top {
    /// Members that were asked for, with their last values.
    pub members: Vec<(&'static str, Value)>,
    /// Are all its keys strings?
    pub only_string_keys: bool,
}

impl Top {
    /// The member `name`, which was asked for.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

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
    pub(super) kind: u8,
    pub(super) size: usize,
    pub(super) big_endian: bool,
}

/// Text that is shared instead of copied.
#[derive(Debug, Clone)]
pub(super) enum Text<'a> {
    Read(&'a str),
    Made(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Read(text) => text,
            Self::Made(text) => text,
        }
    }
}

/// Bytes that are shared instead of copied.
#[derive(Debug, Clone)]
pub(super) enum Blob<'a> {
    Read(&'a [u8]),
    Made(Rc<[u8]>),
}

impl Deref for Blob<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Made(bytes) => bytes,
        }
    }
}

/// A value on the stack. Cloning one copies nothing.
#[derive(Debug, Clone)]
pub(super) enum Thing<'a> {
    None,
    Bool(bool),
    Int(i64),
    Wide(bool),
    Float(f64),
    Number,
    Text(Text<'a>),
    Bytes(Blob<'a>),
    ByteArray(Blob<'a>),
    /// A short tuple; others are opaque.
    Tuple(Rc<[Thing<'a>]>),
    Dict(Rc<RefCell<Dict>>),
    /// A list or a set: cannot be a key.
    Unhashable,
    Callable(Callable),
    Dtype(Rc<Cell<Dtype>>),
    /// What it is as a number, if it has one element.
    Array(Rc<Cell<Option<f64>>>),
    Opaque,
}

impl<'a> Thing<'a> {
    /// A tuple. Those in it that hold tuples themselves become opaque, so that nothing nests deeply.
    pub(super) fn tuple(mut things: Vec<Thing<'a>>) -> Self {
        if things.len() > TUPLE_MAX {
            return Self::Opaque;
        }
        for thing in &mut things {
            if matches!(thing, Self::Tuple(inner) if inner.iter().any(|one| matches!(one, Self::Tuple(_)))) {
                *thing = Self::Opaque;
            }
        }
        Self::Tuple(things.into())
    }

    pub(super) fn is_hashable(&self) -> bool {
        !matches!(self, Self::Dict(_) | Self::Unhashable | Self::ByteArray(_) | Self::Array(_))
    }

    /// What is told of it.
    fn value(&self) -> Value {
        let short = |bytes: &[u8]| bytes[..bytes.len().min(TOLD_MAX)].to_vec();
        match self {
            Self::None => Value::None,
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Int(int) => Value::Int(*int),
            Self::Wide(float) => Value::Wide(*float),
            Self::Float(float) => Value::Float(*float),
            Self::Number => Value::Number,
            Self::Array(value) => value.get().map_or(Value::Opaque, Value::Float),
            Self::Text(text) => Value::Text(text[..text.floor_char_boundary(TOLD_MAX)].to_owned()),
            Self::Bytes(bytes) => Value::Bytes(short(bytes)),
            Self::ByteArray(bytes) => Value::ByteArray(short(bytes)),
            _ => Value::Opaque,
        }
    }
}

/// A dict; of its members only those that are asked for.
#[derive(Debug, Default)]
pub(super) struct Dict {
    pub(super) members: Vec<(&'static str, Value)>,
    pub(super) foreign_keys: bool,
}

impl Dict {
    pub(super) fn insert(&mut self, key: &Thing<'_>, value: &Thing<'_>, wanted: &'static [&'static str]) {
        let Thing::Text(key) = key else {
            self.foreign_keys = true;
            return;
        };
        let Some(name) = wanted.iter().find(|name| **name == &**key) else {
            return;
        };
        self.members.retain(|(known, _)| known != name);
        self.members.push((name, value.value()));
    }
}
