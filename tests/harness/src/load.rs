//! Random load on the queue: fetchers write files, workers take and finish jobs, and both record what they
//! saw.
//!
//! [`LoadRecord::check`] proves from these records that no job was lost or handed out twice.
//! All choices come from one seed; timing does not.

mod check;
mod disk_probe;
mod fetchers;
mod record;
mod rng;
mod workers;

pub use disk_probe::DiskProbe;
pub use fetchers::{Fetchers, Line, Lines};
pub use record::{Disruption, LoadRecord};
pub use rng::{SeededRng, for_each_seed};
pub use workers::{Done, Handout, Seen, WorkerPool};
