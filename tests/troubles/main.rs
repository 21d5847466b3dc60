//! Thirty-five troubles of operators, made with the real binary: each is a row of the table in
//! `deploy/RUNBOOK.md` with its first answer, the command that helps, which the test runs where it can, and
//! the seconds until the answer.
//!
//! `./tests/run --full troubles` runs all of them, one at a time, and prints the table. A usual run leaves
//! out those below [`in_full`].

mod answer;
mod input;
mod pipeline;
mod refusals;
mod starts;

/// Those that take seconds, or need servers of their own.
mod in_full {
    mod addresses;
    mod certificates;
    mod dranspose;
    mod limits;
    mod postgres;
    mod servers;
}

/// The real binary.
const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
