//! What must not end, block or blind the reader.

use std::{fs, os::unix::fs::symlink};

use orchestrator_harness::own_process;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::house::{House, eventually};

/// The reader still works, and the children were never restarted.
fn is_well(house: &House) {
    house.settle();
    for child in ["files", "watcher", "inotify"] {
        let node = house.tree.node(&format!("test/{child}")).expect("child");
        assert_eq!(node.restarts, 0, "{child}");
    }
}

#[test]
fn a_name_that_was_a_loop_and_becomes_a_file_is_read() {
    let house = House::new();
    // A loop of links, and then not.
    symlink("loop", house.path("loop")).expect("link");
    symlink("loop", house.path("f.1.txt.part")).expect("link");
    is_well(&house);
    house.remove("loop");
    house.remove("f.1.txt.part");
    house.write("f.1.txt.part", "alpha 0 1\n");
    house.holds(&[("f", 1, false, &["alpha 0 1"])]);
}

#[test]
fn r16_a_huge_line_arrives_whole() {
    let house = House::new();
    let payload = "x".repeat(8 << 20);
    house.write("f.1.txt", format!("alpha 0 1\nhuge {payload}\nbravo 0 1\n"));
    eventually("it is complete", || house.content().runs.values().any(|run| run.complete));
    let content = house.content();
    let rows = &content.runs.values().next().expect("run").rows;
    assert_eq!(rows.len(), 3);
    assert_eq!(rows["huge"].len(), payload.len());
}

#[test]
fn files_that_find_no_free_descriptor_are_read_later() {
    own_process("file_reader::odd::files_that_find_no_free_descriptor_are_read_later", || {
        let house = House::new();
        let outside = house.temp.as_ref().expect("directory").path().to_owned();
        let names: Vec<String> = (0..40).map(|run| format!("f.{run}.txt.part")).collect();
        for name in &names {
            fs::write(outside.join(name), "alpha 0 1\n").expect("write");
        }
        let limit = getrlimit(Resource::Nofile);
        let open = fs::read_dir("/proc/self/fd").expect("own descriptors").count() as u64;
        setrlimit(Resource::Nofile, Rlimit { current: Some(open + 10), ..limit }).expect("lowered");
        for name in &names {
            fs::rename(outside.join(name), house.path(name)).expect("rename");
        }
        eventually("some are followed", || house.content().runs.len() > 5);
        eventually("the others wait", || house.figure("files", "opens_failed") > 0);
        assert!(house.content().runs.len() < 40);
        setrlimit(Resource::Nofile, limit).expect("raised");
        let expected: Vec<(&str, i64, bool, &[&str])> =
            (0..40).map(|run| ("f", run, false, &["alpha 0 1"][..])).collect();
        house.holds(&expected);
    });
}
