//! Catalogs in the real binary, against a stand-in for ERMrest and a real broker.

mod accidents;
mod agents;
mod migration;
mod polling;
mod rules;
