//! Logical tables of a queue, the same for each store.

use serde::{Deserialize, Serialize};

/// Value of a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// No value.
    Null,
    /// A number; 0 or 1 for a truth value.
    Integer(i64),
    /// A text.
    Text(String),
}

impl Value {
    /// Size of a text in bytes.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Null | Self::Integer(_) => 0,
        }
    }
}

/// Row of a table, its values in the order of [`Table::columns`].
pub type Row = Vec<Value>;

/// Kind of a column's values, each of which may be NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`Value::Integer`].
    Integer,
    /// [`Value::Text`].
    Text,
}

impl Kind {
    /// Name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Text => "text",
        }
    }
}

/// Logical table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Fetchers, with their numbers.
    Fetcher,
    /// Runs of fetchers.
    Run,
    /// Last hand-out and end of each attribute path.
    Log,
    /// Records of jobs in flight.
    Handout,
    /// Hand-outs with their workers.
    Attempt,
    /// Ends with an exit code other than 0.
    Failure,
    /// Paths that an operator has put first.
    Bump,
    /// Jobs of other subsystems.
    Offer,
    /// Rows of fetcher files.
    Row,
}

use Kind::{Integer, Text};

impl Table {
    /// All tables in the order in which they are written: rows refer to those of tables before theirs.
    pub const ALL: [Self; 9] = [
        Self::Fetcher,
        Self::Run,
        Self::Log,
        Self::Handout,
        Self::Attempt,
        Self::Failure,
        Self::Bump,
        Self::Offer,
        Self::Row,
    ];

    /// Name of the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fetcher => "fetcher",
            Self::Run => "run",
            Self::Log => "log",
            Self::Handout => "handout",
            Self::Attempt => "attempt",
            Self::Failure => "failure",
            Self::Bump => "bump",
            Self::Offer => "offer",
            Self::Row => "row",
        }
    }

    /// Names and kinds of the columns, those of the key first. A truth value is 0 or 1.
    #[must_use]
    pub fn columns(self) -> &'static [(&'static str, Kind)] {
        match self {
            Self::Fetcher => &[("fetcher_id", Integer), ("name", Text)],
            Self::Run => &[
                ("fetcher_id", Integer),
                ("run_started", Integer),
                ("is_complete", Integer),
                ("is_deleted", Integer),
                ("added", Integer),
            ],
            Self::Log => {
                &[("attr_path", Text), ("started", Integer), ("finished", Integer), ("exit_code", Integer)]
            }
            Self::Handout => &[
                ("handout_id", Integer),
                ("attr_path", Text),
                ("fetcher_id", Integer),
                ("started", Integer),
                // Numbers, the newest first.
                ("runs", Text),
                ("had_log", Integer),
                ("previous_started", Integer),
                ("previous_finished", Integer),
                ("previous_exit_code", Integer),
                ("delivered", Integer),
            ],
            Self::Attempt => &[
                ("started", Integer),
                ("handout_id", Integer),
                ("attr_path", Text),
                ("fetcher", Text),
                ("connection", Text),
                ("previous_started", Integer),
                ("previous_finished", Integer),
                ("previous_exit_code", Integer),
            ],
            Self::Failure => &[
                ("number", Integer),
                ("attr_path", Text),
                ("started", Integer),
                ("finished", Integer),
                ("exit_code", Integer),
            ],
            Self::Bump => &[("number", Integer), ("attr_path", Text), ("handout_id", Integer)],
            Self::Offer => &[
                ("attr_path", Text),
                ("fetcher_id", Integer),
                ("claim", Text),
                ("state", Integer),
                ("exit_code", Integer),
                ("seconds", Integer),
                ("finished", Integer),
            ],
            Self::Row => &[
                ("fetcher_id", Integer),
                ("run_started", Integer),
                ("attr_path", Text),
                ("payload", Text),
                ("order_jitter", Integer),
                ("is_dequeued", Integer),
            ],
        }
    }

    /// The key gives the order of the rows.
    #[must_use]
    pub fn key(self) -> Vec<&'static str> {
        let columns = match self {
            Self::Row => 3,
            Self::Run | Self::Attempt | Self::Offer => 2,
            Self::Fetcher | Self::Log | Self::Handout | Self::Failure | Self::Bump => 1,
        };
        self.columns().iter().take(columns).map(|(name, _)| *name).collect()
    }

    /// Values of the key in a row.
    #[must_use]
    pub fn key_of(self, row: &[Value]) -> Vec<Value> {
        row.iter().take(self.key().len()).cloned().collect()
    }
}
