//! A panic in any child of an ingester heals within 1 s: before, at the start of, during and after a mapping.
//! Only a running scan is cut short: its workers have its first events, unaltered. All other scans are
//! delivered whole, each event once and in order, and another ingester is not affected.
//!
//! An injected panic hits an actor or a task between two steps, and a thread when it receives its next work,
//! which an ingester's threads do only during a mapping. The process's own clock measures from the exit of
//! the child to the last restart of its ingester's children, which `rest_for_one` (`one_for_all` below
//! `scan`) selects.

use orchestrator_harness::load::{SeededRng, for_each_seed};

use crate::panics::{
    CHILDREN,
    drill::{Drill, OURS, touches_scans},
};

/// Runs `drill` for each child of the ingester and each seed.
fn drills(drill: impl Fn(&mut Drill, &str, &mut SeededRng)) {
    for child in CHILDREN {
        for_each_seed("ORCHESTRATOR_PANIC_ROUNDS", 1, |seed| {
            let mut one = Drill::new();
            drill(&mut one, &format!("{OURS}{child}"), &mut SeededRng::new(seed));
            one.check_events(child);
        });
    }
}

#[test]
fn a_panic_before_during_or_after_a_mapping_heals() {
    drills(|drill, path, rng| {
        drill.panics_before_a_mapping(path);
        drill.panics_in_the_middle(path, 200 + rng.below(200) as u64);
        drill.whole();
        let cut_short = i64::from(touches_scans(path));
        assert_eq!(drill.broken(), cut_short, "one scan was cut short at the most");
        drill.panics_before_a_mapping(path);
        assert_eq!(drill.broken(), cut_short, "a finished scan is not cut short by {path}");
    });
}

/// No event of the mapping was sent before the panic, so the scan is whole.
#[test]
fn a_panic_at_the_start_of_a_mapping_heals() {
    drills(|drill, path, rng| {
        drill.whole();
        drill.panics_while_one_begins(path, rng.chance(50));
        drill.whole();
        assert_eq!(drill.broken(), 0);
    });
}
