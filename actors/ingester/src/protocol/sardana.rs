//! Bodies that Sardana posts (CONTRACT IP25, IP26). `HttpSardanaIngester`. Each accepted body is an item of one frame, written out anew: declared
//! fields first, then the others as they came.

use std::collections::VecDeque;

use bytes::Bytes;
use smallvec::smallvec;

use crate::{
    item::Item,
    protocol::{
        compact,
        json::{Object, depth},
        machine::Verdict,
    },
};

const TYP: &str = "sardana";
/// Bytes times levels of a body: about a second's work.
const WORK_MAX: usize = 512 << 20;
/// A body that is within them however it is nested, bytes.
const SHORT: usize = WORK_MAX / 255;

/// What a post says of the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Post {
    /// `/v1/data_desc`: it starts.
    Description,
    /// `/v1/record_data`: one record.
    Record,
    /// `/v1/record_end`: it has ended.
    End,
}

impl Post {
    /// The post of a path; None for those that are no items.
    pub fn of_path(path: &str) -> Option<Self> {
        match path {
            "/v1/data_desc" => Some(Self::Description),
            "/v1/record_data" => Some(Self::Record),
            "/v1/record_end" => Some(Self::End),
            _ => None,
        }
    }

    fn typ(self) -> &'static str {
        match self {
            Self::Description => "DataDescription",
            Self::Record => "RecordData",
            Self::End => "RecordEnd",
        }
    }

    /// The frame of a body.
    ///
    /// # Errors
    /// The body has not the post's form; says what it wants.
    pub fn frame(self, body: &[u8]) -> Result<Bytes, &'static str> {
        let wants = match self {
            Self::Description => "send a JSON object with serialno (integer), scandir and title (strings)",
            Self::Record => "send a JSON object with timestamp (number)",
            Self::End => "send a JSON object",
        };
        if body.len() > SHORT && body.len().saturating_mul(depth(body).into()) > WORK_MAX {
            return Err("send less, or nest it less: each level of a long body is looked through once more");
        }
        let object = Object::parse(body).ok_or(wants)?;
        self.write(&object).map(Bytes::from).ok_or(wants)
    }

    fn write(self, object: &Object<'_>) -> Option<String> {
        let typ = self.typ();
        if !object.absent_or("type", |raw| raw.string().is_some_and(|text| text == typ)) {
            return None;
        }
        let mut text = format!(r#"{{"type":"{typ}""#);
        let declared: &[&str] = match self {
            Self::Description => {
                compact::key("serialno", &mut text);
                text.push_str(&object.int("serialno")?.to_string());
                for name in ["scandir", "title"] {
                    compact::key(name, &mut text);
                    compact::string(&object.string(name)?, &mut text);
                }
                &["type", "serialno", "scandir", "title"]
            }
            Self::Record => {
                compact::key("timestamp", &mut text);
                compact::float(object.float("timestamp")?, &mut text);
                &["type", "timestamp"]
            }
            Self::End => &["type"],
        };
        for (name, raw) in compact::unique(object.members()) {
            if !declared.contains(&name.as_ref()) {
                compact::key(&name, &mut text);
                compact::value(raw, &mut text);
            }
        }
        text.push('}');
        Some(text)
    }
}

/// Is it what `/v1/custom_data` takes, to throw it away?
pub fn is_object(body: &[u8]) -> bool {
    Object::parse(body).is_some()
}

/// The machine of one scan. Unlike elsewhere a second start within it is an item, too (found by running the original).
#[derive(Debug, Default)]
pub struct Sardana {
    phase: Phase,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    WaitStart,
    Running,
    Done,
}

impl Sardana {
    /// Takes one accepted post.
    pub fn feed(&mut self, post: Post, frame: Bytes, out: &mut VecDeque<Item>) -> Verdict {
        match (&self.phase, post) {
            (Phase::Done, _) | (Phase::WaitStart, Post::Record | Post::End) => return Verdict::Outside,
            (Phase::WaitStart, Post::Description) => self.phase = Phase::Running,
            (Phase::Running, Post::End) => self.phase = Phase::Done,
            (Phase::Running, _) => {}
        }
        out.push_back(Item { typ: TYP.into(), frames: smallvec![frame], number: None });
        Verdict::Taken
    }
}
