//! The stack machine of pickles.

use std::{collections::HashMap, rc::Rc};

use crate::protocol::pickle::{
    PickleError, Top, callable,
    cursor::Cursor,
    value::{Blob, Text, Thing},
};

/// Things on the stack at once, and in the memo.
const THINGS_MAX: usize = 1 << 20;
/// Longer tuples are opaque.
pub(super) const TUPLE_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Machine<'a> {
    cursor: Cursor<'a>,
    wanted: &'static [&'static str],
    stack: Vec<Thing<'a>>,
    /// Where the marks are: nothing below the last one may be popped.
    marks: Vec<usize>,
    memo: HashMap<u64, Thing<'a>>,
    opcode: u8,
    opcode_at: usize,
}

impl<'a> Machine<'a> {
    pub(super) fn new(bytes: &'a [u8], wanted: &'static [&'static str]) -> Self {
        Self {
            cursor: Cursor::new(bytes),
            wanted,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            opcode: 0,
            opcode_at: 0,
        }
    }

    pub(super) fn run(mut self) -> Result<Top, PickleError> {
        loop {
            self.opcode_at = self.cursor.at();
            self.opcode = self.cursor.take(1)?[0];
            if self.opcode == b'.' {
                let Thing::Dict(dict) = self.pop()? else {
                    return Err(PickleError::NoDict);
                };
                let dict = dict.borrow();
                return Ok(Top { members: dict.members.clone(), only_string_keys: !dict.foreign_keys });
            }
            let made = match self.opcode {
                b'I' | b'L' | b'F' | b'S' | b'V' => Some(self.text_scalar()?),
                b'N' | 0x88 | 0x89 | b'K' | b'M' | b'J' | 0x8a | 0x8b | b'G' => Some(self.scalar()?),
                b'X' | 0x8c | 0x8d | b'U' | b'T' | b'C' | b'B' | 0x8e | 0x96 => Some(self.blob()?),
                b')' | b']' | b'}' | 0x8f | b'(' | b'0' | b'1' | b'2' => self.plain()?,
                b't' | 0x85..=0x87 | b'l' | b'd' | 0x91 | b'i' | b'o' => Some(self.gather()?),
                b'a' | b'e' | b's' | b'u' | 0x90 => self.fill()?,
                b'p' | b'q' | b'r' | b'g' | b'h' | b'j' | 0x94 => self.remember()?,
                b'c' | 0x93 | b'R' | 0x81 | 0x92 | b'b' => self.object()?,
                0x80 => (self.cursor.number(1)? <= 5).then_some(()).map(|()| None).ok_or(self.malformed())?,
                0x95 => {
                    let frame = self.cursor.number(8)?;
                    self.cursor.has(frame).then_some(()).ok_or(PickleError::CutOff)?;
                    None
                }
                // A buffer that is marked read-only.
                0x98 => None,
                // Persistent ids, extension codes and buffers beside the pickle: Python refuses them, too.
                _ => return Err(self.malformed()),
            };
            if let Some(thing) = made {
                self.push(thing)?;
            }
        }
    }

    fn malformed(&self) -> PickleError {
        PickleError::Malformed { opcode: self.opcode, at: self.opcode_at }
    }

    fn push(&mut self, thing: Thing<'a>) -> Result<(), PickleError> {
        if self.stack.len() >= THINGS_MAX {
            return Err(PickleError::TooMuch(THINGS_MAX));
        }
        self.stack.push(thing);
        Ok(())
    }

    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Thing<'a>, PickleError> {
        if self.stack.len() <= self.floor() {
            return Err(self.malformed());
        }
        self.stack.pop().ok_or(self.malformed())
    }

    fn top(&self) -> Result<&Thing<'a>, PickleError> {
        self.stack.last().filter(|_| self.stack.len() > self.floor()).ok_or(self.malformed())
    }

    /// Everything above the last mark, and the mark.
    fn pop_mark(&mut self) -> Result<Vec<Thing<'a>>, PickleError> {
        let mark = self.marks.pop().ok_or(self.malformed())?;
        Ok(self.stack.split_off(mark))
    }

    fn text_scalar(&mut self) -> Result<Thing<'a>, PickleError> {
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

    fn scalar(&mut self) -> Result<Thing<'a>, PickleError> {
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

    fn blob(&mut self) -> Result<Thing<'a>, PickleError> {
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

    fn plain(&mut self) -> Result<Option<Thing<'a>>, PickleError> {
        Ok(match self.opcode {
            b')' => Some(Thing::Tuple(Rc::from([]))),
            b'}' => Some(Thing::Dict(Rc::default())),
            b']' | 0x8f => Some(Thing::Unhashable),
            b'2' => Some(self.top()?.clone()),
            b'(' => {
                if self.marks.len() >= THINGS_MAX {
                    return Err(PickleError::TooMuch(THINGS_MAX));
                }
                self.marks.push(self.stack.len());
                None
            }
            b'0' if self.marks.last() == Some(&self.stack.len()) => {
                self.marks.pop();
                None
            }
            b'0' => {
                self.pop()?;
                None
            }
            _ => {
                self.pop_mark()?;
                None
            }
        })
    }

    /// Opcodes that make one thing of several.
    fn gather(&mut self) -> Result<Thing<'a>, PickleError> {
        if let opcode @ 0x85..=0x87 = self.opcode {
            let count = usize::from(opcode - 0x84);
            let from = self.stack.len().checked_sub(count).filter(|from| *from >= self.floor());
            return Ok(Thing::tuple(self.stack.split_off(from.ok_or(self.malformed())?)));
        }
        if self.opcode == b'i' {
            self.cursor.line()?;
            self.cursor.line()?;
        }
        let things = self.pop_mark()?;
        match self.opcode {
            b't' => Ok(Thing::tuple(things)),
            b'd' => {
                let dict = Rc::default();
                self.insert(&Thing::Dict(Rc::clone(&dict)), &things)?;
                Ok(Thing::Dict(dict))
            }
            b'l' => Ok(Thing::Unhashable),
            b'o' if things.is_empty() => Err(self.malformed()),
            _ => Ok(Thing::Opaque),
        }
    }

    /// Opcodes that put things into the one below.
    fn fill(&mut self) -> Result<Option<Thing<'a>>, PickleError> {
        let things = match self.opcode {
            b'a' => vec![self.pop()?],
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.pop_mark()?,
        };
        let target = self.top()?.clone();
        if matches!(self.opcode, b's' | b'u') {
            self.insert(&target, &things)?;
        }
        Ok(None)
    }

    fn insert(&self, target: &Thing<'a>, things: &[Thing<'a>]) -> Result<(), PickleError> {
        let (pairs, rest) = things.as_chunks::<2>();
        if !rest.is_empty() || pairs.iter().any(|[key, _]| !key.is_hashable()) {
            return Err(self.malformed());
        }
        match target {
            Thing::Dict(dict) => {
                let mut dict = dict.borrow_mut();
                pairs.iter().for_each(|[key, value]| dict.insert(key, value, self.wanted));
            }
            Thing::Opaque => {}
            _ => return Err(self.malformed()),
        }
        Ok(())
    }

    fn remember(&mut self) -> Result<Option<Thing<'a>>, PickleError> {
        let at = match self.opcode {
            b'p' | b'g' => {
                let line = std::str::from_utf8(self.cursor.line()?).ok();
                line.and_then(|line| line.trim().parse().ok()).ok_or(self.malformed())?
            }
            b'q' | b'h' => self.cursor.number(1)?,
            0x94 => self.memo.len() as u64,
            _ => self.cursor.number(4)?,
        };
        if matches!(self.opcode, b'g' | b'h' | b'j') {
            return self.memo.get(&at).cloned().map(Some).ok_or(self.malformed());
        }
        if self.memo.len() >= THINGS_MAX {
            return Err(PickleError::TooMuch(THINGS_MAX));
        }
        let thing = self.top()?.clone();
        self.memo.insert(at, thing);
        Ok(None)
    }

    fn object(&mut self) -> Result<Option<Thing<'a>>, PickleError> {
        Ok(Some(match self.opcode {
            b'c' => {
                let module = self.cursor.line()?;
                callable::global(module, self.cursor.line()?)
            }
            0x93 => match (self.pop()?, self.pop()?) {
                (Thing::Text(name), Thing::Text(module)) => {
                    callable::global(module.as_bytes(), name.as_bytes())
                }
                _ => return Err(self.malformed()),
            },
            b'b' => {
                let state = self.pop()?;
                let thing = self.pop()?;
                callable::build(&thing, &state).unwrap_or(thing)
            }
            0x92 => {
                for _argument in ["keywords", "positional", "class"] {
                    self.pop()?;
                }
                Thing::Opaque
            }
            _ => {
                let arguments = self.pop()?;
                callable::call(&self.pop()?, &arguments)
            }
        }))
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

/// Protocol 0's text: Latin-1 with `\uXXXX` and `\UXXXXXXXX`.
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
