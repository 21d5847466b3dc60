//! What happens at a start (contract: start reconciliation).

use std::fs;

use orchestrator_supervise::Verb;

use super::house::{House, Store, eventually};

fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let temp = tempfile::tempdir().expect("temporary directory");
    fs::create_dir(temp.path().join("in")).expect("input directory");
    for (name, text) in files {
        fs::write(temp.path().join("in").join(name), text).expect("write");
    }
    temp
}

#[test]
fn c02_what_is_there_is_read_before_workers_are_answered() {
    let house = House::on(
        directory(&[("f1.100.txt", "alpha 0 1\n"), ("f2.1.txt.part", "bravo 0 1\n")]),
        Store::default(),
    );
    house.holds(&[("f1", 100, true, &["alpha 0 1"]), ("f2", 1, false, &["bravo 0 1"])]);
    let log = house.content().log;
    let expected =
        ["upsert f1 100 false", "upsert f2 1 false", "rows f1 100 1 true", "rows f2 1 1 false", "reconciled"];
    assert_eq!(log, expected);
}

#[test]
fn c07_c08_new_runs_come_before_those_without_a_file_go() {
    let store = Store::knowing(&[("f1", 100, true), ("f2", 101, true)]);
    let house =
        House::on(directory(&[("f2.101.txt", "bravo 0 1\n"), ("f1.102.txt", "charlie 0 1\n")]), store);
    house.holds(&[("f1", 102, true, &["charlie 0 1"]), ("f2", 101, true, &[])]);
    let log = house.content().log;
    assert_eq!(log, ["upsert f1 102 false", "delete f1 100", "rows f1 102 1 true", "reconciled"]);
}

#[test]
fn d06_a_file_that_the_database_has_complete_is_not_read_until_it_changes() {
    let store = Store::knowing(&[("f1", 100, true)]);
    let house = House::on(directory(&[("f1.100.txt", "alpha 0 1\n")]), store);
    house.settle();
    drop(fs::OpenOptions::new().append(true).open(house.path("f1.100.txt")).expect("open"));
    house.settle();
    house.holds(&[("f1", 100, true, &[])]);
    house.append("f1.100.txt", "bravo 0 1\n");
    house.holds(&[("f1", 100, true, &["alpha 0 1", "bravo 0 1"])]);
    house.remove("f1.100.txt");
    house.holds(&[]);
}

#[test]
fn r42_complete_is_said_with_the_last_rows_only() {
    // Several batches, of up to 4 MiB each.
    let text: String = (0..60_000).map(|n| format!("attr{n} {n:0>300}\n")).collect();
    let house = House::on(directory(&[("f1.1.txt", &text)]), Store::default());
    eventually("it is complete", || house.content().runs.values().all(|run| run.complete));
    let log = house.content().log;
    let last = log.iter().rposition(|op| op.starts_with("rows")).expect("rows");
    assert!(log.len() > 4 && log[..last].iter().all(|op| !op.ends_with("true")), "{log:?}");
    assert!(log[last].ends_with("true"), "{log:?}");
}

#[test]
fn a_start_with_much_to_read_answers_workers_before_all_is_read() {
    let text: String = (0..60_000).map(|n| format!("attr{n} {n:0>300}\n")).collect();
    let house = House::on(directory(&[("f1.1.txt", &text), ("f2.1.txt", "alpha 0 1\n")]), Store::default());
    let log = house.content().log;
    let at = log.iter().position(|op| op == "reconciled").expect("reconciled");
    assert!(log[..at].contains(&"rows f2 1 1 true".to_owned()), "every file had its turn: {log:?}");
    assert!(!log[..at].iter().any(|op| op.starts_with("rows f1 1") && op.ends_with("true")), "{log:?}");
    eventually("all is read", || house.content().runs.values().all(|run| run.complete));
}

#[test]
fn restarts_of_any_child_lose_and_change_nothing() {
    let house = House::on(
        directory(&[("f1.100.txt", "alpha 0 1\n"), ("f2.1.txt.part", "bravo 0 1\n")]),
        Store::default(),
    );
    for (turn, child) in ["inotify", "watcher", "files", "files"].into_iter().enumerate() {
        house.command(child, Verb::Restart);
        house.append("f2.1.txt.part", &format!("more{turn} 1\n"));
        eventually("the line is read", || {
            house.content().runs.values().any(|run| run.rows.contains_key(&format!("more{turn}")))
        });
    }
    assert!(!house.content().log.iter().any(|op| op.starts_with("delete")), "{:?}", house.content().log);
    house.remove("f1.100.txt");
    house.holds(&[("f2", 1, false, &["bravo 0 1", "more0 1", "more1 1", "more2 1", "more3 1"])]);
}

#[test]
fn paused_it_reads_nothing_and_resumed_it_reads_all() {
    let house = House::new();
    house.command("files", Verb::Pause);
    house.write("f1.100.txt", "alpha 0 1\n");
    eventually("the run is known", || house.content().runs.len() == 1);
    house.holds(&[("f1", 100, false, &[])]);
    house.command("files", Verb::Resume);
    house.holds(&[("f1", 100, true, &["alpha 0 1"])]);
}
