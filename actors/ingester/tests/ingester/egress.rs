//! The workers' port: order for each worker, hostile peers, purges, and what is over the budget.

mod delivery;
mod hostile;
mod peer;
mod purge;
mod spill;
