//! Explanations of one item: a job, a row, a mapping, a stencil, a digest or a dead letter.
//!
//! A console that knows items answers [`Explain`]. `GET /v1/why?item=..` asks all of them side by side and
//! adds the causes that hold up the child at which an item waits. So a console tells only what concerns the
//! item alone, and nothing of a pause, a lost connection or a child that was given up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{verb, wire::Cause};

/// Maximum number of items of one name that a console tells of.
pub const ITEMS_MAX: usize = 20;
/// Maximum number of names that resemble an unknown one.
pub const NEAREST_MAX: usize = 5;

verb! {
    "explain", Reads -> Explained;
    /// Tell where an item is and what it waits for
    pub struct Explain {
        /// Name of the item, without the name of the subsystem
        pub item: String,
    }
}

/// Answer to [`Explain`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// Items of this name, at most [`ITEMS_MAX`].
    pub found: Vec<Item>,
    /// Names that resemble an unknown one, at most [`NEAREST_MAX`], the most similar first.
    #[serde(default)]
    pub nearest: Vec<String>,
    /// Places that were searched, such as `3 fetchers: a, b, c`; empty if the name cannot be that of an item.
    #[serde(default)]
    pub searched: String,
}

/// One item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// Kind, such as `job`, `row`, `mapping`, `event`, `stencil`, `content` or `dead letter`.
    pub kind: String,
    /// Full name, with that of the subsystem before it: asking for it finds this item alone.
    pub name: String,
    /// Path of the child that works on the item next, or has done so.
    pub path: String,
    /// Progress.
    pub progress: Progress,
    /// Present place and state, in one sentence.
    pub text: String,
    /// Start of this state, milliseconds since 1970.
    #[serde(default)]
    pub since_ms: Option<u64>,
    /// Causes for which it waits, the most effective first.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// Time at which it is worked on; null once it has ended, and while it is worked on.
    #[serde(default)]
    pub next: Option<NextChance>,
    /// Facts, such as its past attempts.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// Names of items at other children that stand for this one, such as the job of a row. Asking for them
    /// tells the rest.
    #[serde(default)]
    pub continues_as: Vec<String>,
}

impl Item {
    /// Creates an item without causes and evidence.
    pub fn new(kind: &str, name: String, path: &str, progress: Progress, text: String) -> Self {
        Self {
            kind: kind.to_owned(),
            name,
            path: path.to_owned(),
            progress,
            text,
            since_ms: None,
            causes: Vec::new(),
            next: None,
            evidence: Vec::new(),
            continues_as: Vec::new(),
        }
    }
}

/// Progress of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// It waits for its turn, or for a cause to end.
    Waits,
    /// It is worked on.
    InProgress,
    /// Nothing is left to do, or nothing is done before somebody changes it.
    Ended,
    /// A state from a newer version.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// Time at which an item is worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NextChance {
    /// At this time, or as soon as possible once it has passed.
    At {
        /// Milliseconds since 1970.
        at_ms: u64,
    },
    /// At some time after this one.
    NotBefore {
        /// Milliseconds since 1970.
        at_ms: u64,
    },
    /// Nobody can tell.
    Unknown {
        /// Why.
        reason: String,
    },
    /// A kind from a newer version.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// Response of `GET /v1/why?item=..`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhyItem {
    /// Wall clock, milliseconds since 1970.
    pub at_ms: u64,
    /// The item that was asked about.
    pub item: String,
    /// Items of this name, by subsystem. Causes that hold up their children are among their causes.
    pub found: Vec<Item>,
    /// Full names that resemble it, if it is unknown.
    #[serde(default)]
    pub nearest: Vec<String>,
    /// Consoles that gave no answer, and, of an unknown item, those that searched for it.
    #[serde(default)]
    pub asked: Vec<Asked>,
}

/// A console at which the item may be known later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Path of its child.
    pub path: String,
    /// Places that it searched.
    #[serde(default)]
    pub searched: String,
    /// Reason why it gave no answer.
    #[serde(default)]
    pub no_answer: Option<String>,
    /// Causes that hold up its subsystem, so that it may not have received the item.
    pub causes: Vec<Cause>,
}

/// The names among `known` that resemble `name` most, at most [`NEAREST_MAX`].
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut by_likeness: Vec<_> =
        known.into_iter().map(|known| (strsim::jaro_winkler(name, known), known)).collect();
    by_likeness.retain(|(likeness, _)| *likeness > 0.75);
    by_likeness.sort_by(|(a, first), (b, second)| b.total_cmp(a).then_with(|| first.cmp(second)));
    by_likeness.dedup();
    by_likeness.into_iter().take(NEAREST_MAX).map(|(_, known)| known.to_owned()).collect()
}
