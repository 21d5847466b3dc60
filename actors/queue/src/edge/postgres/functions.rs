//! Functions of the schema, of one version with the program.

macro_rules! functions {
    ($($file:literal,)*) => { concat!($(include_str!(concat!("sql/functions/", $file, ".sql")), "\n"),*) };
}

/// Creates the functions, or replaces those of an earlier program. Functions in SQL come after those that
/// they call.
pub(crate) const FUNCTIONS: &str = functions![
    "ready_groups",
    "floors",
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
];
