//! Values on the stack of a pickle, and values of requested members.

use std::{
    cell::{Cell, RefCell},
    ops::Deref,
    rc::Rc,
};

/// Longest text or bytes of a value; longer ones are cut.
const VALUE_BYTES_MAX: usize = 4096;

/// Longest tuple; longer ones are opaque.
pub(super) const TUPLE_MAX: usize = 8;

/// Value of a requested member.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// `None`.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer of up to 64 bits.
    Int(i64),
    /// A wider integer; true if it is within a float's range.
    Wide(bool),
    /// A float.
    Float(f64),
    /// A number of an opaque type that Python converts to any other.
    Number,
    /// Text, cut after 4,096 bytes.
    Text(String),
    /// Bytes, cut after 4,096.
    Bytes(Vec<u8>),
    /// A bytearray, cut after 4,096 bytes.
    ByteArray(Vec<u8>),
    /// Any other type.
    Opaque,
}

/// The dict at the top of a pickle.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TopDict {
    /// Requested members with their last values.
    pub members: Vec<(&'static str, Value)>,
    /// True if all keys are strings.
    pub only_string_keys: bool,
}

impl TopDict {
    /// The requested member `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.members.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// A known global.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callable {
    OrderedDict,
    /// `_codecs.encode`, used by protocols 0 to 2 for bytes.
    Encode,
    Bytes,
    ByteArray,
    Decimal,
    NumpyDtype,
    NumpyScalar,
    NumpyReconstruct,
    NumpyFromBuffer,
}

/// A numpy type: letter, size in bytes, byte order.
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

/// A value on the stack. Clones share their content.
#[derive(Debug, Clone)]
pub(super) enum StackItem<'a> {
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
    Tuple(Rc<[StackItem<'a>]>),
    Dict(Rc<RefCell<Dict>>),
    /// A list or a set, which cannot be a key.
    Unhashable,
    Callable(Callable),
    Dtype(Rc<Cell<Dtype>>),
    /// Value of an array with one element.
    Array(Rc<Cell<Option<f64>>>),
    Opaque,
}

impl<'a> StackItem<'a> {
    /// A tuple. Nested tuples of tuples become opaque, to bound the depth.
    pub(super) fn tuple(mut items: Vec<StackItem<'a>>) -> Self {
        if items.len() > TUPLE_MAX {
            return Self::Opaque;
        }
        for item in &mut items {
            if matches!(item, Self::Tuple(inner) if inner.iter().any(|one| matches!(one, Self::Tuple(_)))) {
                *item = Self::Opaque;
            }
        }
        Self::Tuple(items.into())
    }

    pub(super) fn is_hashable(&self) -> bool {
        !matches!(self, Self::Dict(_) | Self::Unhashable | Self::ByteArray(_) | Self::Array(_))
    }

    /// Value of a requested member.
    fn value(&self) -> Value {
        let short = |bytes: &[u8]| bytes[..bytes.len().min(VALUE_BYTES_MAX)].to_vec();
        match self {
            Self::None => Value::None,
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Int(int) => Value::Int(*int),
            Self::Wide(float) => Value::Wide(*float),
            Self::Float(float) => Value::Float(*float),
            Self::Number => Value::Number,
            Self::Array(value) => value.get().map_or(Value::Opaque, Value::Float),
            Self::Text(text) => Value::Text(text[..text.floor_char_boundary(VALUE_BYTES_MAX)].to_owned()),
            Self::Bytes(bytes) => Value::Bytes(short(bytes)),
            Self::ByteArray(bytes) => Value::ByteArray(short(bytes)),
            _ => Value::Opaque,
        }
    }
}

/// A dict with its requested members.
#[derive(Debug, Default)]
pub(super) struct Dict {
    pub(super) members: Vec<(&'static str, Value)>,
    pub(super) foreign_keys: bool,
}

impl Dict {
    pub(super) fn insert(
        &mut self,
        key: &StackItem<'_>,
        value: &StackItem<'_>,
        wanted: &'static [&'static str],
    ) {
        let StackItem::Text(key) = key else {
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
