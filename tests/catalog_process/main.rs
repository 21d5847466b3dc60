//! Catalogs in the real binary, with a stand-in for ERMrest and a real broker.

mod agents;
/// Judges a number that depends on the load: `tests/run` runs these one at a time, after all others.
mod alone {
    mod sharing;
}
mod faults;
mod hooks;
mod jobs;
mod moving;
mod notify_only;
mod plan;
mod polling;
mod rules;
mod session;
mod why;
