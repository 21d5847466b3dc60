//! JSON parser that keeps values as text and evaluates only requested members. It accepts the same
//! input as the original's parser, including `NaN`, `Infinity` and `-Infinity`, up to [`DEPTH`]
//! levels.

use std::borrow::Cow;

/// Deepest nesting.
const DEPTH: usize = 200;
/// Longest text, bytes: a header, or the lists of one PandABox message.
const TEXT_MAX: usize = 64 << 20;

/// Most members of one object; each takes several times its shortest text in memory.
const MEMBERS_MAX: usize = 1 << 18;

/// Bytes that end a run of plain characters in a string.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut control = 0;
    while control < 0x20 {
        special[control] = true;
        control += 1;
    }
    special[b'"' as usize] = true;
    special[b'\\' as usize] = true;
    special
};

/// Text of a valid value, without surrounding whitespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    /// The text as received.
    pub(crate) fn text(self) -> &'a str {
        self.0
    }

    /// First byte, which determines the type.
    pub(crate) fn lead(self) -> u8 {
        self.0.as_bytes()[0]
    }

    /// Characters of a string; None for other types.
    pub(crate) fn string(self) -> Option<Cow<'a, str>> {
        let inner = self.0.strip_prefix('"')?.strip_suffix('"')?;
        Some(if inner.as_bytes().contains(&b'\\') {
            Cow::Owned(unescape(inner))
        } else {
            Cow::Borrowed(inner)
        })
    }

    /// Elements of an array; None for other types.
    pub(crate) fn elements(self) -> Option<Elements<'a>> {
        (self.lead() == b'[').then_some(Elements { scan: Scan { text: self.0, at: 1 } })
    }

    /// Members of an object in order, including repeated keys; None for other types or too many
    /// members.
    pub(crate) fn members(self) -> Option<Vec<(Raw<'a>, Raw<'a>)>> {
        Scan { text: self.0, at: 0 }.members().ok()
    }
}

/// Iterator over the elements of a valid array.
#[derive(Debug, Clone)]
pub(crate) struct Elements<'a> {
    scan: Scan<'a>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        self.scan.space();
        self.scan.eat(b',');
        self.scan.space();
        (self.scan.peek() != Some(b']')).then(|| self.scan.value(0).ok()).flatten()
    }
}

/// Members of an object, in order.
#[derive(Debug)]
pub(crate) struct Object<'a>(Vec<(Raw<'a>, Raw<'a>)>);

impl<'a> Object<'a> {
    /// Parses `bytes` as one object; None for anything else or too many members.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut members = Vec::with_capacity(8);
        each_member(bytes, |key, value| {
            if members.len() <= MEMBERS_MAX {
                members.push((key, value));
            }
        })?;
        (members.len() <= MEMBERS_MAX).then_some(Self(members))
    }

    /// The member `name`; the last of repeated ones, as in the original's parser.
    pub(crate) fn get(&self, name: &str) -> Option<Raw<'a>> {
        let is_it = |key: Raw<'a>| {
            let (written, plain) = (key.text().as_bytes(), name.len() + 2);
            if written.len() == plain {
                &written[1..=name.len()] == name.as_bytes()
            } else {
                // A key with escapes is longer than the name.
                written.len() > plain
                    && written.contains(&b'\\')
                    && key.string().is_some_and(|key| key == name)
            }
        };
        self.0.iter().rev().find(|(key, _)| is_it(*key)).map(|(_, value)| *value)
    }

    pub(crate) fn members(&self) -> &[(Raw<'a>, Raw<'a>)] {
        &self.0
    }
}

/// Parses `bytes` as one object and passes its members to `take` in order, including repeated keys.
/// If it returns None, the members passed so far are invalid.
pub(crate) fn each_member<'a>(bytes: &'a [u8], mut take: impl FnMut(Raw<'a>, Raw<'a>)) -> Option<()> {
    if bytes.len() > TEXT_MAX {
        return None;
    }
    let mut scan = Scan { text: std::str::from_utf8(bytes).ok()?, at: 0 };
    scan.space();
    scan.object(1, &mut take).ok()?;
    scan.space();
    (scan.at == bytes.len()).then_some(())
}

/// Nesting depth of JSON text, at most 255; for other text any number. It only counts brackets, to
/// be fast.
pub(crate) fn depth(bytes: &[u8]) -> u8 {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_u8, 0, false, false);
    for byte in bytes {
        match byte {
            _ if std::mem::take(&mut escaped) => {}
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth = depth.saturating_add(1);
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Invalid JSON.
#[derive(Debug, Clone, Copy)]
struct Malformed;

#[derive(Debug, Clone)]
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.eat(byte) { Ok(()) } else { Err(Malformed) }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Malformed> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Malformed);
        }
        self.at += word.len();
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Raw<'a>, Malformed> {
        let from = self.at;
        match self.peek().ok_or(Malformed)? {
            b'"' => self.string()?,
            b'{' => self.object(depth + 1, &mut |_, _| ())?,
            b'[' => self.array(depth + 1)?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            b'N' => self.word("NaN")?,
            b'I' => self.word("Infinity")?,
            _ => self.number()?,
        }
        Ok(Raw(&self.text[from..self.at]))
    }

    fn members(&mut self) -> Result<Vec<(Raw<'a>, Raw<'a>)>, Malformed> {
        let mut members = Vec::new();
        self.object(1, &mut |key, value| {
            if members.len() <= MEMBERS_MAX {
                members.push((key, value));
            }
        })?;
        if members.len() <= MEMBERS_MAX { Ok(members) } else { Err(Malformed) }
    }

    fn object(&mut self, depth: usize, take: &mut impl FnMut(Raw<'a>, Raw<'a>)) -> Result<(), Malformed> {
        self.expect(b'{')?;
        if depth > DEPTH {
            return Err(Malformed);
        }
        self.space();
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            let from = self.at;
            self.string()?;
            let key = Raw(&self.text[from..self.at]);
            self.space();
            self.expect(b':')?;
            self.space();
            take(key, self.value(depth)?);
            self.space();
            if self.eat(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
            self.space();
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), Malformed> {
        self.expect(b'[')?;
        if depth > DEPTH {
            return Err(Malformed);
        }
        self.space();
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.space();
            if self.eat(b']') {
                return Ok(());
            }
            self.expect(b',')?;
            self.space();
        }
    }

    fn number(&mut self) -> Result<(), Malformed> {
        if self.eat(b'-') && self.peek() == Some(b'I') {
            return self.word("Infinity");
        }
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == from { Err(Malformed) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<(), Malformed> {
        self.expect(b'"')?;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let plain = rest.iter().position(|byte| SPECIAL[usize::from(*byte)]).ok_or(Malformed)?;
            self.at += plain;
            match rest[plain] {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape()?,
                _ => return Err(Malformed),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Malformed> {
        self.expect(b'\\')?;
        let escaped = self.peek().ok_or(Malformed)?;
        self.at += 1;
        match escaped {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => match self.code()? {
                0xd800..0xdc00 => {
                    self.word("\\u")?;
                    if (0xdc00..0xe000).contains(&self.code()?) { Ok(()) } else { Err(Malformed) }
                }
                0xdc00..0xe000 => Err(Malformed),
                _ => Ok(()),
            },
            _ => Err(Malformed),
        }
    }

    fn code(&mut self) -> Result<u32, Malformed> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).ok_or(Malformed)?;
        self.at += 4;
        digits.iter().try_fold(0, |code, digit| {
            let digit = char::from(*digit).to_digit(16).ok_or(Malformed)?;
            Ok(code * 16 + digit)
        })
    }
}

/// Characters of a string with valid escapes.
fn unescape(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut scan = Scan { text: inner, at: 0 };
    while scan.at < inner.len() {
        let next = inner[scan.at..].find('\\').map_or(inner.len(), |found| scan.at + found);
        out.push_str(&inner[scan.at..next]);
        scan.at = (next + 2).min(inner.len());
        match inner.as_bytes().get(next + 1) {
            Some(b'b') => out.push('\u{8}'),
            Some(b'f') => out.push('\u{c}'),
            Some(b'n') => out.push('\n'),
            Some(b'r') => out.push('\r'),
            Some(b't') => out.push('\t'),
            Some(b'u') => {
                let mut code = scan.code().unwrap_or_default();
                if (0xd800..0xdc00).contains(&code) {
                    scan.at += 2;
                    let low = scan.code().unwrap_or_default();
                    code = 0x1_0000 + ((code - 0xd800) << 10) + low.saturating_sub(0xdc00);
                }
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(char::from(*other)),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests;
