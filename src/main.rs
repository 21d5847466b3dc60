//! orchestrator.
fn main() {}
