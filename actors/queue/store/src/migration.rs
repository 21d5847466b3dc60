//! The two sides of a migration of a queue, while it is stopped (CONTRACT QD18): from one store to the other,
//! to a dump, or from one.
//!
//! Each store gives and takes the same rows of the same logical tables, so that a checksum of them can be
//! compared. The target has a mark from before the first row until the last transaction, and is no queue as
//! long as it has.
//!
//! | table | SQLite | PostgreSQL |
//! |---|---|---|
//! | `fetcher` | `fetchers` | `fetcher`; `instance` is the one that is named for the migration |
//! | `run` | `fetcher_runs`, `orchestrator_deleted_run`, `orchestrator_run` | `run` |
//! | `log` | `log` | `log` |
//! | `handout`, of jobs in flight | `orchestrator_handout` | `in_flight`, but for the rows below |
//! | `attempt` | `orchestrator_attempt` | `attempt`; older days in one partition |
//! | `failure` | `orchestrator_failure` | `failure`; rows without a number get the next ones in their order |
//! | `bump` | `orchestrator_bump` | `bump` |
//! | `offer` | `orchestrator_offer` | `offer` |
//! | `row` | `queue` | `listing` and `payload` |
//!
//! Numbers of fetchers, hand-outs, failures and bumps stay the same, and later ones are greater. A pause is
//! set in the target. All else follows from the tables. In SQLite that is `last_started` and the table of
//! groups. In PostgreSQL it is `ready`, `incarnation`, and rows of `in_flight`, numbered from 1, for log rows
//! without an end that have no record. Limits are those of the configuration at the next start.

mod side;
mod table;

pub use self::{
    side::{BATCH_BYTES, BATCH_ROWS, Counters, Side, Source, Take, Target},
    table::{Kind, Row, Table, Value},
};
