//! What happens to the directory as a whole.

use std::fs;

use orchestrator_supervise::Verb;

use super::house::{House, Store, eventually};

fn link(house: &House) -> (String, String) {
    let link = house.tree.node("test/inotify").expect("child").link.expect("an edge");
    (link.state.clone(), format!("{link:?}"))
}

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
fn r14_an_overflow_of_the_kernels_queue_is_made_up_for() {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("limit");
    let events: usize = limit.trim().parse().expect("number");
    let house = House::new();
    house.write("f.0.txt", "alpha 0 1\n");
    house.holds(&[("f", 0, true, &["alpha 0 1"])]);
    // The watcher stands still, so its mailbox fills, then the kernel's queue.
    house.command("watcher", Verb::Pause);
    house.remove("f.0.txt");
    for turn in 0..2 * events {
        house.write(["x", "y"][turn % 2], "");
    }
    house.write("f.1.txt", "bravo 0 1\n");
    let before = house.figure("watcher", "rescans");
    house.command("watcher", Verb::Resume);
    house.holds(&[("f", 1, true, &["bravo 0 1"])]);
    eventually("a rescan was asked for", || house.figure("watcher", "rescans") > before);
}

#[test]
fn r15_a_directory_moved_away_keeps_its_runs_until_it_is_back() {
    let house = House::new();
    house.write("f.1.txt", "alpha 0 1\n");
    house.write("f.2.txt.part", "bravo 0 1\n");
    let runs: [(&str, i64, bool, &[&str]); 2] =
        [("f", 1, true, &["alpha 0 1"]), ("f", 2, false, &["bravo 0 1"])];
    house.holds(&runs);
    let away = house.dir.with_extension("away");
    fs::rename(&house.dir, &away).expect("move away");
    eventually("the link is down", || link(&house).0 == "down");
    assert!(link(&house).1.contains("input directory is gone"), "{}", link(&house).1);
    house.holds(&runs);
    assert!(!house.dir.exists(), "it is never created while running");
    fs::rename(&away, &house.dir).expect("move back");
    eventually("the link is up", || link(&house).0 == "up");
    house.append("f.2.txt.part", "charlie 0 1\n");
    house.holds(&[runs[0], ("f", 2, false, &["bravo 0 1", "charlie 0 1"])]);
}

#[test]
fn r15_a_directory_deleted_and_made_anew_is_watched_again() {
    let house = House::new();
    house.write("f.1.txt", "alpha 0 1\n");
    house.holds(&[("f", 1, true, &["alpha 0 1"])]);
    fs::remove_dir_all(&house.dir).expect("remove");
    eventually("the link is down", || link(&house).0 == "down");
    fs::create_dir(&house.dir).expect("create");
    house.write("f.2.txt", "bravo 0 1\n");
    house.holds(&[("f", 2, true, &["bravo 0 1"])]);
    house.write("f.3.txt", "charlie 0 1\n");
    house.holds(&[("f", 2, true, &["bravo 0 1"]), ("f", 3, true, &["charlie 0 1"])]);
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
