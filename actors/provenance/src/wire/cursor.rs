//! Reader of untrusted msgpack, one header at a time.

use rmp::Marker;

use crate::row::Sha1Git;

/// Position in a body. Every reader returns None for another kind of value or a truncated one; the
/// position is then undefined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// The position stays if `read` gives None.
    pub(super) fn try_read<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = *self;
        let value = read(self);
        if value.is_none() {
            *self = start;
        }
        value
    }

    /// Does not read the marker.
    pub(super) fn peek(&self) -> Option<Marker> {
        self.rest.first().copied().map(Marker::from_u8)
    }

    /// Reads a nil if there is one.
    pub(super) fn nil(&mut self) -> bool {
        let found = self.peek() == Some(Marker::Null);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    pub(super) fn array_len(&mut self) -> Option<u32> {
        match self.marker()? {
            Marker::FixArray(len) => Some(u32::from(len)),
            Marker::Array16 => self.length(2),
            Marker::Array32 => self.length(4),
            _ => None,
        }
    }

    pub(super) fn map_len(&mut self) -> Option<u32> {
        match self.marker()? {
            Marker::FixMap(len) => Some(u32::from(len)),
            Marker::Map16 => self.length(2),
            Marker::Map32 => self.length(4),
            _ => None,
        }
    }

    pub(super) fn bin(&mut self) -> Option<&'a [u8]> {
        let len = match self.marker()? {
            Marker::Bin8 => self.length(1)?,
            Marker::Bin16 => self.length(2)?,
            Marker::Bin32 => self.length(4)?,
            _ => return None,
        };
        self.take(len as usize)
    }

    /// Bytes of a str, which are not checked to be UTF-8.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let len = match self.marker()? {
            Marker::FixStr(len) => u32::from(len),
            Marker::Str8 => self.length(1)?,
            Marker::Str16 => self.length(2)?,
            Marker::Str32 => self.length(4)?,
            _ => return None,
        };
        self.take(len as usize)
    }

    /// Type and bytes of an ext.
    pub(super) fn ext(&mut self) -> Option<(i8, &'a [u8])> {
        let len = match self.marker()? {
            Marker::FixExt1 => 1,
            Marker::FixExt2 => 2,
            Marker::FixExt4 => 4,
            Marker::FixExt8 => 8,
            Marker::FixExt16 => 16,
            Marker::Ext8 => self.length(1)?,
            Marker::Ext16 => self.length(2)?,
            Marker::Ext32 => self.length(4)?,
            _ => return None,
        };
        let kind = self.take(1)?[0] as i8;
        Some((kind, self.take(len as usize)?))
    }

    /// A non-negative integer of at most 64 bits.
    pub(super) fn unsigned(&mut self) -> Option<u64> {
        let marker = self.marker()?;
        let bytes = match marker {
            Marker::FixPos(value) => return Some(u64::from(value)),
            Marker::U8 | Marker::I8 => self.take(1)?,
            Marker::U16 | Marker::I16 => self.take(2)?,
            Marker::U32 | Marker::I32 => self.take(4)?,
            Marker::U64 | Marker::I64 => self.take(8)?,
            _ => return None,
        };
        let signed = matches!(marker, Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64);
        (!signed || bytes[0] < 0x80).then(|| big_endian(bytes))
    }

    /// Type name and payload of a tagged map: exactly the keys `swhtype` and `d`, both bin, in any order.
    pub(super) fn tagged(&mut self) -> Option<(&'a [u8], Cursor<'a>)> {
        if self.map_len()? != 2 {
            return None;
        }
        let (mut name, mut payload) = (None, None);
        for _ in 0..2 {
            match self.bin()? {
                b"swhtype" => name = Some(self.text()?),
                b"d" => payload = Some(Cursor::new(self.raw_value()?)),
                _ => return None,
            }
        }
        Some((name?, payload?))
    }

    /// Bytes of one value of any kind.
    pub(super) fn raw_value(&mut self) -> Option<&'a [u8]> {
        let start = self.rest;
        self.skip()?;
        Some(&start[..start.len() - self.rest.len()])
    }

    /// Skips one value of any kind. It counts the open values instead of recursing, so nesting
    /// cannot exhaust the stack.
    pub(super) fn skip(&mut self) -> Option<()> {
        let mut open = 1_usize;
        while open > 0 {
            // Each open value has at least one byte.
            if open > self.left() {
                return None;
            }
            let (bytes, values) = self.extent()?;
            self.take(bytes)?;
            open = (open - 1).saturating_add(values);
        }
        Some(())
    }

    /// Reads a header and returns the number of bytes and of values that follow it.
    fn extent(&mut self) -> Option<(usize, usize)> {
        let marker = self.marker()?;
        let of = |bytes| Some((bytes, 0));
        match marker {
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => of(0),
            Marker::U8 | Marker::I8 => of(1),
            Marker::U16 | Marker::I16 | Marker::FixExt1 => of(2),
            Marker::FixExt2 => of(3),
            Marker::U32 | Marker::I32 | Marker::F32 => of(4),
            Marker::FixExt4 => of(5),
            Marker::U64 | Marker::I64 | Marker::F64 => of(8),
            Marker::FixExt8 => of(9),
            Marker::FixExt16 => of(17),
            Marker::FixStr(len) => of(usize::from(len)),
            Marker::Str8 | Marker::Bin8 => of(self.length(1)? as usize),
            Marker::Str16 | Marker::Bin16 => of(self.length(2)? as usize),
            Marker::Str32 | Marker::Bin32 => of(self.length(4)? as usize),
            Marker::Ext8 => of((self.length(1)? as usize).saturating_add(1)),
            Marker::Ext16 => of((self.length(2)? as usize).saturating_add(1)),
            Marker::Ext32 => of((self.length(4)? as usize).saturating_add(1)),
            Marker::FixArray(len) => Some((0, usize::from(len))),
            Marker::Array16 => Some((0, self.length(2)? as usize)),
            Marker::Array32 => Some((0, self.length(4)? as usize)),
            Marker::FixMap(len) => Some((0, usize::from(len) * 2)),
            Marker::Map16 => Some((0, (self.length(2)? as usize).saturating_mul(2))),
            Marker::Map32 => Some((0, (self.length(4)? as usize).saturating_mul(2))),
            Marker::Reserved => None,
        }
    }

    fn marker(&mut self) -> Option<Marker> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(Marker::from_u8(first))
    }

    fn length(&mut self, bytes: usize) -> Option<u32> {
        self.take(bytes).map(|bytes| big_endian(bytes) as u32)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }
}

/// Up to eight bytes.
pub(super) fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// None unless `bytes` has 20 bytes.
pub(super) fn id(bytes: &[u8]) -> Option<Sha1Git> {
    bytes.try_into().ok().map(Sha1Git)
}
