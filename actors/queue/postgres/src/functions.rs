//! Functions of the program, and the schema that has them.

use orchestrator_queue_rules::{jitter::jitter_hash, storage::Delivery};

macro_rules! functions {
    ($($file:literal,)*) => { concat!($(include_str!(concat!("sql/functions/", $file, ".sql")), "\n"),*) };
}

/// Statements that create the functions in the first schema of the session. Functions in SQL come after those
/// that they call. `$schema` stands for the schema of the tables, `$pending` and the like for values of
/// [`Delivery`].
const FUNCTIONS: &str = functions![
    "path_matches",
    "ready_groups",
    "scan_starts",
    "slots",
    "before_commit",
    "make_ready",
    "drop_ready",
    "enter",
    "instance_lock",
    "renew_lease",
    "upsert_run",
    "adopt_fetcher",
    "end_holds",
    "end_jobs",
    "handed_out",
    "next_paths",
    "choose_jobs",
    "take_jobs",
    "drop_removed",
    "record_handouts",
    "hand_out",
    "undo_handouts",
    "record_deliveries",
    "requeue",
    "ingest",
    "delete_rows",
    "offers",
    "bump_path",
    "set_limits",
    "is_paused",
    "keep_attempts",
    "function_schemas",
];

/// Maximum length of the start of a schema's name, so that PostgreSQL does not cut the name: its hash has 8
/// digits.
const START_BYTES_MAX: usize = 53;

/// Functions for the tables in one schema.
pub(super) struct Functions {
    /// Schema of the functions. Its name ends with a hash of the statements, so that programs with other
    /// functions have another one.
    pub(super) schema: String,
    /// Statements that create them.
    pub(super) sql: String,
    /// Number of the functions.
    pub(super) count: usize,
}

impl Functions {
    /// `schema` is that of the tables: letters, digits and `_`.
    pub(super) fn of(schema: &str) -> Self {
        let sql = Delivery::in_sql(&FUNCTIONS.replace("$schema", schema));
        let start: String = schema.chars().take(START_BYTES_MAX).collect();
        let count = sql.matches("CREATE OR REPLACE FUNCTION ").count();
        Self { schema: format!("{start}_f{:08x}", jitter_hash(&sql)), sql, count }
    }
}

/// Statement that makes the functions and the tables known to a session. Functions come first: the schema of
/// the tables may have those of a former program.
#[must_use]
pub fn search_path(schema: &str) -> String {
    format!("SET search_path = {}, {schema}", Functions::of(schema).schema)
}
