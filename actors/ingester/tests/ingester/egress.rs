//! The workers' port: order for each worker, hostile peers, purges, and what is over the budget.

mod delivery;
mod peer;
mod pings;
mod purge;
mod spill;
