//! A panic in any child of an ingester heals within a second, before a mapping, while one begins, in the middle of one and after its
//! end. Only a scan that was under way is cut short: its workers keep a beginning of it, and nothing wrong. All others are carried
//! whole, each event once and in order, and an ingester beside it notices nothing.
//!
//! An injected panic hits an actor or a task between two steps, and a thread at the next work that it takes in hand: those of an
//! ingester have none between two mappings. Healing is measured by the process's own clock, from the exit of the child until the
//! last of its ingester has started again; `rest_for_one`, and `one_for_all` below `scan`, decide who is.

use orchestrator_harness::load::{SeededRng, for_each_seed};

use crate::panics::{
    CHILDREN,
    drill::{Drill, OURS, touches_scans},
};

/// Each child, and the rng of each round.
fn drills(drill: impl Fn(&mut Drill, &str, &mut SeededRng)) {
    for child in CHILDREN {
        for_each_seed("ORCHESTRATOR_PANIC_ROUNDS", 1, |seed| {
            let mut one = Drill::new();
            drill(&mut one, &format!("{OURS}{child}"), &mut SeededRng::new(seed));
            one.judge(child);
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

/// Nothing of the mapping has left by then, so that it is whole, too.
#[test]
fn a_panic_at_the_start_of_a_mapping_heals() {
    drills(|drill, path, rng| {
        drill.whole();
        drill.panics_while_one_begins(path, rng.chance(50));
        drill.whole();
        assert_eq!(drill.broken(), 0);
    });
}
