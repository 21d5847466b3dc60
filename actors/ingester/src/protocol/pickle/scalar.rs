//! Opcodes that carry a number, text or bytes.

use crate::protocol::pickle::{
    error::PickleError,
    machine::Machine,
    value::{Blob, Text, Thing},
};

impl<'a> Machine<'a> {
    pub(super) fn text_scalar(&mut self) -> Result<Thing<'a>, PickleError> {
        let line = self.cursor.line()?;
        let malformed = self.malformed();
        if self.opcode == b'V' {
            return Ok(Thing::Text(unicode(line)));
        }
        let text = std::str::from_utf8(line).ok().filter(|text| text.is_ascii()).ok_or(malformed.clone())?;
        match (self.opcode, text) {
            (b'I', "00") => Ok(Thing::Bool(false)),
            (b'I', "01") => Ok(Thing::Bool(true)),
            (b'F', text) => text.trim().parse().map(Thing::Float).map_err(|_| malformed),
            (b'S', text) => {
                let quoted = |quote| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
                let inner = quoted('\'').or_else(|| quoted('"')).ok_or(malformed)?;
                Ok(Thing::Text(Text::Read(inner)))
            }
            (_, text) => whole(text.trim().trim_end_matches('L')).ok_or(malformed),
        }
    }

    pub(super) fn scalar(&mut self) -> Result<Thing<'a>, PickleError> {
        Ok(match self.opcode {
            b'N' => Thing::None,
            0x88 => Thing::Bool(true),
            0x89 => Thing::Bool(false),
            b'K' => Thing::Int(self.cursor.number(1)?.cast_signed()),
            b'M' => Thing::Int(self.cursor.number(2)?.cast_signed()),
            b'J' => {
                let bits: [u8; 4] = self.cursor.take(4)?.try_into().map_err(|_| PickleError::CutOff)?;
                Thing::Int(i32::from_le_bytes(bits).into())
            }
            b'G' => {
                let bits: [u8; 8] = self.cursor.take(8)?.try_into().map_err(|_| PickleError::CutOff)?;
                Thing::Float(f64::from_be_bytes(bits))
            }
            opcode => long(self.cursor.counted(if opcode == 0x8a { 1 } else { 4 })?),
        })
    }

    pub(super) fn blob(&mut self) -> Result<Thing<'a>, PickleError> {
        let width = match self.opcode {
            b'U' | b'C' | 0x8c => 1,
            b'X' | b'T' | b'B' => 4,
            _ => 8,
        };
        let bytes = self.cursor.counted(width)?;
        Ok(match self.opcode {
            b'C' | b'B' | 0x8e => Thing::Bytes(Blob::Read(bytes)),
            0x96 => Thing::ByteArray(Blob::Read(bytes)),
            b'U' | b'T' if !bytes.is_ascii() => return Err(self.malformed()),
            _ => match std::str::from_utf8(bytes) {
                Ok(text) => Thing::Text(Text::Read(text)),
                // Lone surrogates: text for Python, but nothing that a field takes.
                Err(_) => Thing::Opaque,
            },
        })
    }
}

fn whole<'a>(text: &str) -> Option<Thing<'a>> {
    if let Ok(int) = text.parse() {
        return Some(Thing::Int(int));
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| Thing::Wide(text.parse().is_ok_and(f64::is_finite)))
}

/// Two's complement, little-endian.
fn long<'a>(bytes: &[u8]) -> Thing<'a> {
    if bytes.len() > 8 {
        // 128 bytes are the last that a float reaches.
        return Thing::Wide(bytes.len() <= 128);
    }
    let fill = if bytes.last().is_some_and(|high| *high >= 0x80) { 0xff } else { 0 };
    let mut whole = [fill; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    Thing::Int(i64::from_le_bytes(whole))
}

/// Protocol 0's text: Latin-1 with `\u` and four hexadecimal digits, or `\U` and eight.
fn unicode(line: &[u8]) -> Text<'_> {
    if let (true, false, Ok(text)) = (line.is_ascii(), line.contains(&b'\\'), std::str::from_utf8(line)) {
        return Text::Read(text);
    }
    let mut out = String::with_capacity(line.len());
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        let width = match (byte, line.get(at + 1)) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => 0,
        };
        let code = line.get(at + 2..at + 2 + width).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.filter(|_| width > 0).and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                at += 2 + width;
            }
            None => {
                out.push(char::from(*byte));
                at += 1;
            }
        }
    }
    Text::Made(out.into())
}
