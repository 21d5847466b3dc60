//! Opcodes that carry a number, text or bytes.

use crate::pickle::{
    error::PickleError,
    machine::PickleMachine,
    value::{Blob, StackItem, Text},
};

impl<'a> PickleMachine<'a> {
    pub(super) fn text_scalar(&mut self) -> Result<StackItem<'a>, PickleError> {
        let line = self.cursor.line()?;
        let malformed = self.malformed();
        if self.opcode == b'V' {
            return Ok(StackItem::Text(unicode(line)));
        }
        let text = std::str::from_utf8(line).ok().filter(|text| text.is_ascii()).ok_or(malformed.clone())?;
        match (self.opcode, text) {
            (b'I', "00") => Ok(StackItem::Bool(false)),
            (b'I', "01") => Ok(StackItem::Bool(true)),
            (b'F', text) => text.trim().parse().map(StackItem::Float).map_err(|_| malformed),
            (b'S', text) => {
                let quoted = |quote| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
                let inner = quoted('\'').or_else(|| quoted('"')).ok_or(malformed)?;
                Ok(StackItem::Text(Text::Read(inner)))
            }
            (_, text) => whole(text.trim().trim_end_matches('L')).ok_or(malformed),
        }
    }

    pub(super) fn scalar(&mut self) -> Result<StackItem<'a>, PickleError> {
        Ok(match self.opcode {
            b'N' => StackItem::None,
            0x88 => StackItem::Bool(true),
            0x89 => StackItem::Bool(false),
            b'K' => StackItem::Int(self.cursor.number(1)?.cast_signed()),
            b'M' => StackItem::Int(self.cursor.number(2)?.cast_signed()),
            b'J' => {
                let bits: [u8; 4] = self.cursor.take(4)?.try_into().map_err(|_| PickleError::CutOff)?;
                StackItem::Int(i32::from_le_bytes(bits).into())
            }
            b'G' => {
                let bits: [u8; 8] = self.cursor.take(8)?.try_into().map_err(|_| PickleError::CutOff)?;
                StackItem::Float(f64::from_be_bytes(bits))
            }
            opcode => long(self.cursor.counted(if opcode == 0x8a { 1 } else { 4 })?),
        })
    }

    pub(super) fn blob(&mut self) -> Result<StackItem<'a>, PickleError> {
        let width = match self.opcode {
            b'U' | b'C' | 0x8c => 1,
            b'X' | b'T' | b'B' => 4,
            _ => 8,
        };
        let bytes = self.cursor.counted(width)?;
        Ok(match self.opcode {
            b'C' | b'B' | 0x8e => StackItem::Bytes(Blob::Read(bytes)),
            0x96 => StackItem::ByteArray(Blob::Read(bytes)),
            b'U' | b'T' if !bytes.is_ascii() => return Err(self.malformed()),
            _ => match std::str::from_utf8(bytes) {
                Ok(text) => StackItem::Text(Text::Read(text)),
                // Lone surrogates are valid in Python, but in no field.
                Err(_) => StackItem::Opaque,
            },
        })
    }
}

fn whole<'a>(text: &str) -> Option<StackItem<'a>> {
    if let Ok(int) = text.parse() {
        return Some(StackItem::Int(int));
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| StackItem::Wide(text.parse().is_ok_and(f64::is_finite)))
}

/// Two's complement, little-endian.
fn long<'a>(bytes: &[u8]) -> StackItem<'a> {
    if bytes.len() > 8 {
        // A float represents integers of up to 128 bytes.
        return StackItem::Wide(bytes.len() <= 128);
    }
    let fill = if bytes.last().is_some_and(|high| *high >= 0x80) { 0xff } else { 0 };
    let mut whole = [fill; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    StackItem::Int(i64::from_le_bytes(whole))
}

/// Text of protocol 0: Latin-1 with `\u` and four hexadecimal digits, or `\U` and eight.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pickle::{Value, read_dict};

    #[test]
    fn both_truth_values_are_read() {
        let dict = read_dict(b"\x80\x02}(U\x01a\x88U\x01b\x89u.", &["a", "b"]).unwrap();
        assert_eq!((dict.get("a"), dict.get("b")), (Some(&Value::Bool(true)), Some(&Value::Bool(false))));
    }

    #[test]
    fn an_integer_as_text_has_digits() {
        assert!(["", "-", "1a", "--1"].into_iter().all(|text| whole(text).is_none()));
        assert!(matches!(whole("-7"), Some(StackItem::Int(-7))));
        assert!(matches!(whole("-12345678901234567890"), Some(StackItem::Wide(true))));
    }

    #[test]
    fn the_highest_bit_is_the_sign() {
        for (bytes, expected) in [
            (&[][..], 0),
            (&[0x7f], 127),
            (&[0x80], -128),
            (&[0x81], -127),
            (&[0x80, 0x00], 128),
            (&[0x00, 0x80], -32_768),
            (&[0xff; 8], -1),
        ] {
            assert!(matches!(long(bytes), StackItem::Int(int) if int == expected), "{bytes:?}");
        }
    }
}
