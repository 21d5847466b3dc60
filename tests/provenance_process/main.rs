//! The provenance storage in the real binary, against real brokers and databases.

mod broker;
mod broker_readiness;
mod client;
mod connection_strings;
mod embedded;
mod hostile;
mod listings;
mod mongodb;
mod timing;
