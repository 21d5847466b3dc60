//! Stack machine of pickles.

use std::{collections::HashMap, rc::Rc};

use crate::pickle::{
    callable,
    cursor::Cursor,
    error::PickleError,
    value::{StackItem, TopDict},
};

/// Most items on the stack, and in the memo.
const ITEMS_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct PickleMachine<'a> {
    pub(super) cursor: Cursor<'a>,
    wanted: &'static [&'static str],
    stack: Vec<StackItem<'a>>,
    /// Stack positions of the marks; nothing below the last one may be popped.
    marks: Vec<usize>,
    memo: HashMap<u64, StackItem<'a>>,
    pub(super) opcode: u8,
    opcode_at: usize,
}

impl<'a> PickleMachine<'a> {
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

    pub(super) fn run(mut self) -> Result<TopDict, PickleError> {
        loop {
            self.opcode_at = self.cursor.at();
            self.opcode = self.cursor.take(1)?[0];
            if self.opcode == b'.' {
                let StackItem::Dict(dict) = self.pop()? else {
                    return Err(PickleError::NoDict);
                };
                let dict = dict.borrow();
                return Ok(TopDict { members: dict.members.clone(), only_string_keys: !dict.foreign_keys });
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
                // Marks a buffer as read-only.
                0x98 => None,
                // Persistent ids, extension codes and out-of-band buffers are refused, as by
                // Python.
                _ => return Err(self.malformed()),
            };
            if let Some(item) = made {
                self.push(item)?;
            }
        }
    }

    pub(super) fn malformed(&self) -> PickleError {
        PickleError::Malformed { opcode: self.opcode, at: self.opcode_at }
    }

    fn push(&mut self, item: StackItem<'a>) -> Result<(), PickleError> {
        if self.stack.len() >= ITEMS_MAX {
            return Err(PickleError::TooMuch(ITEMS_MAX));
        }
        self.stack.push(item);
        Ok(())
    }

    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<StackItem<'a>, PickleError> {
        if self.stack.len() <= self.floor() {
            return Err(self.malformed());
        }
        self.stack.pop().ok_or(self.malformed())
    }

    fn top(&self) -> Result<&StackItem<'a>, PickleError> {
        self.stack.last().filter(|_| self.stack.len() > self.floor()).ok_or(self.malformed())
    }

    /// Pops everything above the last mark, and the mark.
    fn pop_mark(&mut self) -> Result<Vec<StackItem<'a>>, PickleError> {
        let mark = self.marks.pop().ok_or(self.malformed())?;
        Ok(self.stack.split_off(mark))
    }

    fn plain(&mut self) -> Result<Option<StackItem<'a>>, PickleError> {
        Ok(match self.opcode {
            b')' => Some(StackItem::Tuple(Rc::from([]))),
            b'}' => Some(StackItem::Dict(Rc::default())),
            b']' | 0x8f => Some(StackItem::Unhashable),
            b'2' => Some(self.top()?.clone()),
            b'(' => {
                if self.marks.len() >= ITEMS_MAX {
                    return Err(PickleError::TooMuch(ITEMS_MAX));
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

    /// Opcodes that combine several items into one.
    fn gather(&mut self) -> Result<StackItem<'a>, PickleError> {
        if let opcode @ 0x85..=0x87 = self.opcode {
            let count = usize::from(opcode - 0x84);
            let from = self.stack.len().checked_sub(count).filter(|from| *from >= self.floor());
            return Ok(StackItem::tuple(self.stack.split_off(from.ok_or(self.malformed())?)));
        }
        if self.opcode == b'i' {
            self.cursor.line()?;
            self.cursor.line()?;
        }
        let items = self.pop_mark()?;
        match self.opcode {
            b't' => Ok(StackItem::tuple(items)),
            b'd' => {
                let dict = Rc::default();
                self.insert(&StackItem::Dict(Rc::clone(&dict)), &items)?;
                Ok(StackItem::Dict(dict))
            }
            b'l' => Ok(StackItem::Unhashable),
            b'o' if items.is_empty() => Err(self.malformed()),
            _ => Ok(StackItem::Opaque),
        }
    }

    /// Opcodes that add items to the one below.
    fn fill(&mut self) -> Result<Option<StackItem<'a>>, PickleError> {
        let items = match self.opcode {
            b'a' => vec![self.pop()?],
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.pop_mark()?,
        };
        let target = self.top()?.clone();
        if matches!(self.opcode, b's' | b'u') {
            self.insert(&target, &items)?;
        }
        Ok(None)
    }

    fn insert(&self, target: &StackItem<'a>, items: &[StackItem<'a>]) -> Result<(), PickleError> {
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() || pairs.iter().any(|[key, _]| !key.is_hashable()) {
            return Err(self.malformed());
        }
        match target {
            StackItem::Dict(dict) => {
                let mut dict = dict.borrow_mut();
                pairs.iter().for_each(|[key, value]| dict.insert(key, value, self.wanted));
            }
            StackItem::Opaque => {}
            _ => return Err(self.malformed()),
        }
        Ok(())
    }

    fn remember(&mut self) -> Result<Option<StackItem<'a>>, PickleError> {
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
        if self.memo.len() >= ITEMS_MAX {
            return Err(PickleError::TooMuch(ITEMS_MAX));
        }
        let item = self.top()?.clone();
        self.memo.insert(at, item);
        Ok(None)
    }

    fn object(&mut self) -> Result<Option<StackItem<'a>>, PickleError> {
        Ok(Some(match self.opcode {
            b'c' => {
                let module = self.cursor.line()?;
                callable::global(module, self.cursor.line()?)
            }
            0x93 => match (self.pop()?, self.pop()?) {
                (StackItem::Text(name), StackItem::Text(module)) => {
                    callable::global(module.as_bytes(), name.as_bytes())
                }
                _ => return Err(self.malformed()),
            },
            b'b' => {
                let state = self.pop()?;
                let item = self.pop()?;
                callable::build(&item, &state);
                item
            }
            0x92 => {
                for _argument in ["keywords", "positional", "class"] {
                    self.pop()?;
                }
                StackItem::Opaque
            }
            _ => {
                let arguments = self.pop()?;
                callable::call(&self.pop()?, &arguments)
            }
        }))
    }
}
