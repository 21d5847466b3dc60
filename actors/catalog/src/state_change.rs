//! The conditional state change (CONTRACT CO01 to CO03): look for candidates, plan, write the plan unless somebody was faster. A pure machine:
//! it says what to ask, and is told the answer.

use bytes::Bytes;
use orchestrator_supervise::sanitize_to;
use serde_json::Value;

use crate::{
    handling::Row,
    service::{Get, Put, Reply, Trouble},
};

/// A candidate, and what becomes of it.
pub type Planned = (Row, Row);

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask this, and tell [`StateChange::answered`].
    Get(Get),
    /// Say what is to become of each of these rows, and tell [`StateChange::planned`].
    Plan(Vec<Row>),
    /// Write this, and tell [`StateChange::answered`].
    Put(Put),
    /// It is over.
    Done(Outcome),
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The catalog is as it was when there was nothing to do; nobody was asked for a plan.
    Idle {
        /// Its ETag.
        etag: String,
    },
    /// There was nothing to do.
    Nothing {
        /// The ETag to be idle at.
        etag: Option<String>,
    },
    /// Rows were changed.
    Changed(Change),
    /// It failed, and nothing was written. There is no partial result.
    Failed(Trouble),
    /// The answer to the write is lost: it may have been done.
    Unsettled {
        /// What was to be written: candidate and update.
        plan: Vec<Planned>,
        /// Why it is not known.
        reason: String,
    },
}

/// What was changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The ETag after the change.
    pub etag: Option<String>,
    /// Candidate and update of each row that the server changed.
    pub changed: Vec<Planned>,
    /// Those of which it told nothing: somebody else was faster, or they are gone. The original takes them for changed.
    pub passed_over: Vec<Planned>,
}

/// An answer at hand.
#[derive(Debug, Clone, PartialEq)]
struct Kept {
    path: String,
    etag: String,
    body: Bytes,
}

/// What is being waited for.
#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Resting,
    Looking,
    /// The rows were read under this ETag.
    Planning(Option<String>),
    Writing(Vec<Planned>),
}

/// One query with its update, over and over. Keeps the last answer to the query, and no other.
#[derive(Debug, Clone)]
pub struct StateChange {
    query: String,
    update: String,
    /// Names in the update that tell its rows apart.
    keys: Vec<String>,
    /// Whether the write rests on what was read (`If-Match`).
    guarded: bool,
    idle: Option<String>,
    cache: bool,
    kept: Option<Kept>,
    seen: Option<String>,
    phase: Phase,
}

impl StateChange {
    /// `update` is an `attributegroup` or `entity` path; the keys of its rows are read from it. See [`keys_of`].
    pub fn new(query: impl Into<String>, update: impl Into<String>, guarded: bool) -> Self {
        let update = update.into();
        Self {
            query: query.into(),
            keys: keys_of(&update),
            update,
            guarded,
            idle: None,
            cache: true,
            kept: None,
            seen: None,
            phase: Phase::Resting,
        }
    }

    /// Asks for all rows each time, without the last answer's ETag.
    #[must_use]
    pub fn without_cache(self) -> Self {
        Self { cache: false, ..self }
    }

    /// Another query, for the same update.
    pub fn ask(&mut self, query: String) {
        if self.query != query {
            self.query = query;
        }
    }

    /// The ETag of the last answer to a look.
    pub fn seen(&self) -> Option<&str> {
        self.seen.as_deref()
    }

    /// Begins. With `idle`, nothing is planned if the catalog still has that ETag.
    pub fn begin(&mut self, idle: Option<String>) -> Step {
        self.idle = idle;
        self.phase = Phase::Looking;
        let kept = self.kept.as_ref().filter(|kept| self.cache && kept.path == self.query);
        Step::Get(Get { path: self.query.clone(), if_none_match: kept.map(|kept| kept.etag.clone()) })
    }

    /// The answer to what was asked.
    pub fn answered(&mut self, answer: Result<Reply, Trouble>) -> Step {
        match std::mem::replace(&mut self.phase, Phase::Resting) {
            Phase::Looking => match answer {
                Ok(reply) => self.looked(reply),
                Err(trouble) => Step::Done(Outcome::Failed(trouble)),
            },
            Phase::Writing(plan) => Step::Done(self.wrote(plan, answer)),
            // Nothing was asked.
            phase @ (Phase::Resting | Phase::Planning(_)) => {
                self.phase = phase;
                Step::Done(Outcome::Nothing { etag: None })
            }
        }
    }

    fn looked(&mut self, reply: Reply) -> Step {
        let (etag, body) = match reply {
            Reply::Unchanged { etag } => {
                let Some(kept) = self.kept.as_ref().filter(|kept| kept.path == self.query) else {
                    let wrong = "the server says that nothing has changed, which it was not asked";
                    return Step::Done(Outcome::Failed(Trouble::Away(wrong.to_owned())));
                };
                // The server repeats it; what it says now counts.
                (etag.or_else(|| Some(kept.etag.clone())), kept.body.clone())
            }
            Reply::Rows { etag, body } => (etag, body),
        };
        self.seen.clone_from(&etag);
        self.kept = match &etag {
            Some(etag) if self.cache => {
                Some(Kept { path: self.query.clone(), etag: etag.clone(), body: body.clone() })
            }
            _ => None,
        };
        if let Some(idle) = &self.idle
            && etag.as_ref() == Some(idle)
        {
            return Step::Done(Outcome::Idle { etag: idle.clone() });
        }
        match rows(&body) {
            Ok(rows) if rows.is_empty() => Step::Done(Outcome::Nothing { etag }),
            Ok(rows) => {
                self.phase = Phase::Planning(etag);
                Step::Plan(rows)
            }
            Err(reason) => Step::Done(Outcome::Failed(Trouble::Refused(reason))),
        }
    }

    /// The plan: candidate and update, without the rows that nothing is to become of.
    pub fn planned(&mut self, plan: Vec<Planned>) -> Step {
        let Phase::Planning(etag) = std::mem::replace(&mut self.phase, Phase::Resting) else {
            return Step::Done(Outcome::Nothing { etag: None });
        };
        if plan.is_empty() {
            // An empty write would be a change, of which everybody is told, this agent too.
            return Step::Done(Outcome::Nothing { etag });
        }
        let updates: Vec<_> = plan.iter().map(|(_, update)| update).collect();
        let body = body_of(&updates);
        let if_match = etag.filter(|_| self.guarded);
        self.phase = Phase::Writing(plan);
        Step::Put(Put { path: self.update.clone(), if_match, body })
    }

    fn wrote(&self, plan: Vec<Planned>, answer: Result<Reply, Trouble>) -> Outcome {
        match answer {
            Ok(Reply::Rows { etag, body }) => match rows(&body) {
                Ok(echoed) => {
                    let (changed, passed_over) = self.divide(plan, &echoed);
                    Outcome::Changed(Change { etag, changed, passed_over })
                }
                Err(reason) => Outcome::Unsettled { plan, reason },
            },
            Ok(Reply::Unchanged { .. }) => {
                Outcome::Unsettled { plan, reason: "the server answered a write with 304".to_owned() }
            }
            Err(Trouble::Unsettled(reason)) => Outcome::Unsettled { plan, reason },
            Err(trouble) => Outcome::Failed(trouble),
        }
    }

    fn divide(&self, plan: Vec<Planned>, echoed: &[Row]) -> (Vec<Planned>, Vec<Planned>) {
        // Without keys that can be known it is as with the original.
        if self.keys.is_empty() {
            return (plan, Vec::new());
        }
        let told: std::collections::HashSet<_> = echoed.iter().map(|row| key(row, &self.keys)).collect();
        plan.into_iter().partition(|(_, update)| told.contains(&key(update, &self.keys)))
    }
}

/// What tells a row apart, as text.
pub fn key(row: &Row, keys: &[String]) -> String {
    let values: Vec<_> = keys.iter().map(|name| row.get(name).unwrap_or(&Value::Null)).collect();
    serde_json::to_string(&values).unwrap_or_default()
}

/// The names of key columns in an update path, `/attributegroup/PATH/k1,out:=k2;targets`; none for other paths.
pub fn keys_of(update: &str) -> Vec<String> {
    let Some(path) = update.strip_prefix("/attributegroup/") else { return Vec::new() };
    let path = path.split('?').next().unwrap_or_default();
    let Some((_, group)) = path.rsplit_once('/') else { return Vec::new() };
    let keys = group.split(';').next().unwrap_or_default();
    keys.split(',')
        .filter(|key| !key.is_empty())
        .map(|key| decode(key.split(":=").next().unwrap_or(key)))
        .collect()
}

/// A name as it was before it was percent-encoded.
fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the rows of an answer. A member that is there twice, as in answers to POST, counts as the last one.
///
/// # Errors
/// It is no JSON array of objects, or takes more memory than allowed once decoded.
pub fn rows(body: &[u8]) -> Result<Vec<Row>, String> {
    weight::check(body)?;
    serde_json::from_slice(body).map_err(|error| {
        // The text of the error may repeat a value of any length.
        let error = sanitize_to(error.to_string(), 200);
        format!("the answer is no JSON array of rows ({error}): see that the path is one of rows")
    })
}

/// Rows as the body of a write.
pub fn body_of<R: serde::Serialize>(rows: &[R]) -> Bytes {
    // Rows came from JSON, or were made of it.
    serde_json::to_vec(rows).unwrap_or_default().into()
}

mod weight;

#[cfg(test)]
mod tests;
