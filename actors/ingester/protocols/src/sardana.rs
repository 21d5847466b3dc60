//! Bodies that Sardana posts (CONTRACT IP25, IP26). `HttpSardanaIngester`. Each accepted body
//! becomes an item of one frame, with declared fields first and the others in their order.

use std::collections::VecDeque;

use bytes::Bytes;
use smallvec::smallvec;

use crate::{
    compact,
    item::Item,
    json::{Object, depth},
    machine::Outcome,
};

const TYP: &str = "sardana";
/// Limit of a body's length in bytes times its depth, about a second of work.
const WORK_MAX: usize = 512 << 20;
/// Bodies up to this length are within the limit at any depth, bytes.
const SHORT: usize = WORK_MAX / 255;

/// Kind of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Post {
    /// `/v1/data_desc`: the scan starts.
    Description,
    /// `/v1/record_data`: one record.
    Record,
    /// `/v1/record_end`: the scan has ended.
    End,
}

impl Post {
    /// Kind of post at a path; None for other paths.
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

    /// Frame of a body.
    ///
    /// # Errors
    /// The body does not have the post's form; the text says what to send.
    pub fn frame(self, body: &[u8]) -> Result<Bytes, &'static str> {
        let wants = match self {
            Self::Description => "send a JSON object with serialno (integer), scandir and title (strings)",
            Self::Record => "send a JSON object with timestamp (number)",
            Self::End => "send a JSON object",
        };
        if body.len() > SHORT && body.len().saturating_mul(depth(body).into()) > WORK_MAX {
            return Err("send a shorter or less nested body");
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

/// `/v1/custom_data` accepts such a body, which is dropped.
pub fn is_object(body: &[u8]) -> bool {
    Object::parse(body).is_some()
}

/// State machine of one scan. Unlike in other protocols, a second start within a scan is an item,
/// as in the original.
#[derive(Debug, Default)]
pub struct Sardana {
    phase: SardanaPhase,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum SardanaPhase {
    #[default]
    WaitStart,
    Running,
    Done,
}

impl Sardana {
    /// Processes one accepted post.
    pub fn feed(&mut self, post: Post, frame: Bytes, out: &mut VecDeque<Item>) -> Outcome {
        match (&self.phase, post) {
            (SardanaPhase::Done, _) | (SardanaPhase::WaitStart, Post::Record | Post::End) => {
                return Outcome::Outside;
            }
            (SardanaPhase::WaitStart, Post::Description) => self.phase = SardanaPhase::Running,
            (SardanaPhase::Running, Post::End) => self.phase = SardanaPhase::Done,
            (SardanaPhase::Running, _) => {}
        }
        out.push_back(Item { typ: TYP.into(), frames: smallvec![frame], number: None });
        Outcome::Taken
    }
}
