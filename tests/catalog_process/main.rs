//! Catalogs in the real binary, with a stand-in for ERMrest and a real broker.

mod agents;
mod faults;
mod migration;
mod plan;
mod polling;
mod rules;
mod session;
mod why;
