//! What happens to the directory as a whole.

use std::fs;

use orchestrator_supervise::Verb;

use super::house::{House, Store};

#[test]
fn r14_lost_events_are_made_up_for_by_a_rescan() {
    // One place in the inbox: nearly every command is refused and becomes a rescan.
    let temp = tempfile::tempdir().expect("temporary directory");
    let house = House::starting(temp, Store::default(), 1);
    for run in 0..300 {
        house.write(&format!("f.{run}.txt"), "alpha 0 1\n");
        if run % 3 == 0 {
            house.remove(&format!("f.{run}.txt"));
        }
    }
    let expected: Vec<(&str, i64, bool, &[&str])> =
        (0..300).filter(|run| run % 3 != 0).map(|run| ("f", run, true, &["alpha 0 1"][..])).collect();
    house.holds(&expected);
    assert!(house.figure("watcher", "rescans") > 1);
}

#[test]
fn r15_a_parent_that_is_exchanged_is_noticed() {
    let temp = tempfile::tempdir().expect("temporary directory");
    let house = House::on(temp, Store::default());
    house.write("f.1.txt", "alpha 0 1\n");
    house.holds(&[("f", 1, true, &["alpha 0 1"])]);
    let parent = house.dir.parent().expect("parent").to_owned();
    let away = parent.with_extension("away");
    fs::rename(&parent, &away).expect("move away");
    fs::create_dir_all(&house.dir).expect("create");
    house.write("f.2.txt", "bravo 0 1\n");
    house.holds(&[("f", 2, true, &["bravo 0 1"])]);
    fs::remove_dir_all(away).expect("remove");
}

#[test]
fn paused_the_edge_passes_nothing_on_and_resumed_everything() {
    let house = House::new();
    house.command("inotify", Verb::Pause);
    house.write("f.1.txt", "alpha 0 1\n");
    let events = house.figure("watcher", "directory_events");
    house.command("inotify", Verb::Resume);
    house.holds(&[("f", 1, true, &["alpha 0 1"])]);
    assert_eq!(events, 0);
}
