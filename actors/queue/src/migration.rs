//! Migration of a queue from one store to the other, while it is stopped (CONTRACT QD18): copies the rows of
//! the [logical tables](orchestrator_queue_store::migration) and compares them by checksum.

mod checksum;
mod copy;
mod progress;

pub(crate) use self::copy::{Names, Report, migrate};
