//! The two sides of a migration of a queue from one store to the other, while it is stopped (CONTRACT QD18).
//!
//! Each store gives and takes the same rows of the same logical tables, so that a checksum of them can be
//! compared. The target keeps the state of the migration in the transactions of the rows, and is no queue
//! before the last one.
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
mod state;
mod table;

pub use self::{
    side::{BATCH_BYTES, BATCH_ROWS, Counters, Found, Side, Source, Take, Target},
    state::State,
    table::{Kind, Row, Table, Value},
};
