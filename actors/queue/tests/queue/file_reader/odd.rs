//! What must not end, block or blind the reader.

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::symlink},
};

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
fn r01_r02_r03_names_without_a_sound_number_do_no_harm() {
    let house = House::new();
    for name in ["f.abc.txt", "f..txt.part", "f.1e5.txt", "f.99999999999999999999.txt", "f.+1.txt"] {
        house.write(name, "alpha 0 1\n");
        house.append(name, "bravo 0 1\n");
    }
    fs::write(house.dir.join(OsStr::from_bytes(b"\xff.1.txt")), "alpha 0 1\n").expect("write");
    is_well(&house);
    house.holds(&[]);
    assert_eq!(house.figure("watcher", "odd_names"), 6, "one warning a name");
}

#[test]
fn r04_r05_invalid_utf8_costs_its_line_only() {
    let house = House::new();
    house.write("f.1.txt", b"alpha 0 1\nbr\xffavo 0 1\ncharlie 0 \xc3\ndelta 0 1\n");
    house.holds(&[("f", 1, true, &["alpha 0 1", "delta 0 1"])]);
    assert_eq!(house.figure("files", "lines_skipped"), 2);
    is_well(&house);
}

#[test]
fn r06_a_character_cut_between_two_writes_is_whole() {
    let house = House::new();
    let mut file = house.create("f.1.txt.part");
    for byte in "日本 1\n".as_bytes() {
        file.write_all(&[*byte]).expect("write");
        house.settle();
    }
    house.holds(&[("f", 1, false, &["日本 1"])]);
}

#[test]
fn r07_r08_r09_what_is_no_regular_file_is_ignored() {
    let house = House::new();
    fs::create_dir(house.path("dir.1.txt")).expect("directory");
    fs::create_dir(house.path("dir.2.txt.part")).expect("directory");
    symlink("loop.1.txt", house.path("loop.1.txt")).expect("link");
    symlink("nowhere", house.path("dangling.1.txt.part")).expect("link");
    symlink("/dev/zero", house.path("zero.1.txt")).expect("link");
    let fifo = rustix::fs::FileType::Fifo;
    for name in ["fifo.1.txt", "fifo.2.txt.part"] {
        rustix::fs::mknodat(rustix::fs::CWD, house.path(name), fifo, 0o600.into(), 0).expect("fifo");
    }
    let _socket = std::os::unix::net::UnixListener::bind(house.path("sock.1.txt")).expect("socket");
    is_well(&house);
    house.holds(&[]);
    let (temp, store) = house.stop();
    let house = House::on(temp, store);
    is_well(&house);
    house.holds(&[]);
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
