//! The producer in the real binary, against stand-ins for its database and its queue.

mod boot;
mod cli;
mod instances;
mod kills;
mod outages;
