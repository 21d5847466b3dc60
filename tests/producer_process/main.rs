//! Producer in the real binary, against stand-ins for MongoDB and Faktory.

mod boot;
mod cli;
mod instances;
mod kills;
mod on_complete;
mod outages;
mod queues;
mod why;
