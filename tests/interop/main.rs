//! Peers that are not ours: the real dranspose, and workers and tools for the queue in other languages.

mod dranspose;
mod queue_workers;
