//! Copies of a stopped queue (CONTRACT QD18): the rows of the
//! [logical tables](orchestrator_queue_store::migration) go from one store to the other, or to a dump and
//! from it to a store, and are compared by checksum.

mod copy;
mod dump_file;
mod line;
mod progress;

pub(crate) use self::{
    copy::{CopyReport, Names, dump, migrate},
    dump_file::DumpFile,
};
