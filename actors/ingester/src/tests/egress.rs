//! The workers' port: order, pings, purges and spilling.

mod delivery;
mod peer;
mod pings;
mod purge;
mod spill;
