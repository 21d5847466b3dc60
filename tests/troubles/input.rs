//! Troubles of the queue's input directory and of its disk.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use orchestrator_harness::{Reply, SmallDisk, TestEnv, eventually};

use crate::{
    BINARY,
    answer::{Trouble, await_cured, run_help},
};

/// Root reads and writes all files unless it drops the capabilities.
pub(crate) const WITHOUT_CAPABILITIES: &str =
    "[ $(id -u) != 0 ] || exec setpriv --bounding-set=-dac_override,-dac_read_search \"$0\" \"$@\"";

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("change the mode");
}

#[test]
fn a_directory_without_fetcher_files_names_the_expected_form() {
    let env = TestEnv::new(BINARY);
    let trouble = Trouble::begins("a file's name does not fit, such as `demo.txt`");
    env.write("demo.txt", "alpha 0 1\n");
    let _instance = env.start();
    assert_eq!(env.worker().ready(), Reply::NoJobs);
    let directory = env.input_dir().display().to_string();
    let text = format!("no fetcher file in {directory}; files with other names: 1, such as demo.txt");
    let cause = trouble.shows_first(&env, "queue", &text);
    assert_eq!(cause.path, "queue/reader");
    assert!(cause.evidence[0].starts_with("expected: NAME.NUMBER.txt"), "{cause:?}");
    assert_eq!(
        cause.evidence[1],
        "ignored demo.txt: the name has another form: name the file STEM.NUMBER.txt"
    );
    assert!(cause.help.starts_with(&format!("ls -l {directory}; rename ")), "{cause:?}");
    assert!(run_help(&env, &cause.help).contains("demo.txt"), "{cause:?}");
    // A name that appears later is evidence, too.
    env.write("g.x.txt", "");
    let cause = env.first_cause("queue", "; files with other names: 2, such as demo.txt");
    assert!(cause.evidence[1].starts_with("ignored g.x.txt: "), "{cause:?}");
    // They are a cause beside files that are read, too, until they are gone.
    env.write("f.1.txt", "alpha 0 1\n");
    let cause = env.first_cause("queue", "files with other names: 2, such as demo.txt; they are not read");
    assert_eq!(cause.help, format!("ls -l {directory}; rename the files, or move them elsewhere"));
    assert_eq!(env.metric("queue/reader", "misnamed"), 2);
    assert_eq!(env.log().matches("ignored: the name has another form").count(), 1);
    env.rename("demo.txt", "f.2.txt");
    env.remove("g.x.txt");
    eventually("no cause", || env.causes("queue").is_empty());
    env.remove("f.1.txt");
    env.remove("f.2.txt");
    Trouble::begins("there are no fetcher files").shows_first(&env, "queue", "no fetcher file");
}

#[test]
fn a_fetcher_file_that_cannot_be_read_is_named_until_it_can() {
    let env = TestEnv::new(BINARY).shell(WITHOUT_CAPABILITIES);
    for name in ["f.1.txt", "g.1.txt.part", "h.1.txt"] {
        env.write(name, format!("{} 0 1\n", &name[..1]));
    }
    set_mode(&env.file("f.1.txt"), 0);
    set_mode(&env.file("g.1.txt.part"), 0);
    let trouble = Trouble::begins("fetcher files cannot be read");
    let _instance = env.start();
    let cause = trouble.shows_first(
        &env,
        "queue",
        "fetcher files that cannot be read: 2, such as f.1.txt: Permission denied",
    );
    assert!(matches!(env.worker().ready(), Reply::Job { .. }), "other files are read");
    assert_eq!(cause.path, "queue/reader");
    assert!(cause.help.starts_with(&format!("ls -l {}; make the files readable", env.input_dir().display())));
    assert!(run_help(&env, &cause.help).contains("---------- "), "{cause:?}");
    assert_eq!(env.metric("queue/reader", "unreadable"), 2);
    for name in ["f.1.txt", "g.1.txt.part"] {
        assert_eq!(env.log().matches(&format!("name=\"{name}\"")).count(), 1, "{}", env.log());
        set_mode(&env.file(name), 0o600);
    }
    eventually("no cause", || env.causes("queue").is_empty());
    assert_eq!(env.metric("queue/reader", "unreadable"), 0);
}

#[test]
fn an_input_directory_that_may_not_be_read_is_named_until_it_may() {
    let env = TestEnv::new(BINARY).shell(WITHOUT_CAPABILITIES);
    env.write("f.1.txt", "alpha 0 1\n");
    set_mode(&env.input_dir(), 0);
    let trouble = Trouble::begins("the input directory may not be read");
    let _instance = env.start();
    let cause = trouble.shows_first(&env, "queue", "Permission denied");
    assert!(cause.text.contains(&env.input_dir().display().to_string()), "{cause:?}");
    assert!(run_help(&env, &cause.help).contains("d--------- "), "{cause:?}");
    set_mode(&env.input_dir(), 0o700);
    await_cured(&env, "queue", "Permission denied");
    let mut worker = env.worker();
    eventually("its job", || matches!(worker.ready(), Reply::Job { .. }));
}

#[test]
fn a_database_that_is_read_only_is_named_until_it_is_not() {
    let env = TestEnv::new(BINARY).shell(WITHOUT_CAPABILITIES);
    assert!(env.start().terminate().success());
    set_mode(&env.database_path(), 0o444);
    let trouble = Trouble::begins("a database file is read-only");
    let _instance = env.start();
    let cause = trouble.shows_first(
        &env,
        "queue",
        &format!("SQLite at {} cannot be used: ", env.database_path().display()),
    );
    assert_eq!(cause.text.matches("readonly database").count(), 1, "{cause:?}");
    let shown = run_help(&env, &cause.help);
    let read_only: Vec<_> = shown.lines().filter(|line| line.starts_with("-r--r--r-- ")).collect();
    assert!(read_only.len() > 1, "SQLite has made others like it: {shown}");
    for line in read_only {
        set_mode(Path::new(line.split(' ').next_back().expect("a path")), 0o600);
    }
    await_cured(&env, "queue", "cannot be used");
}

#[test]
fn a_full_disk_names_the_file_and_the_free_bytes() {
    SmallDisk::with(8, "input::a_full_disk_names_the_file_and_the_free_bytes", |disk| {
        let database = disk.path().join("queue.db").display().to_string();
        let env = TestEnv::new(BINARY).set(&format!("queue.database={database}"));
        env.write("f.1.txt", "alpha 0 1\n");
        let _instance = env.start();
        let mut worker = env.worker();
        eventually("a job", || matches!(worker.ready(), Reply::Job { .. }));
        eventually("no cause", || env.causes("queue").is_empty());
        disk.fill();
        let more: String = (0..4_000).map(|i| format!("package{i} 1.0 1.1\n")).collect();
        let trouble = Trouble::begins(
            "the disk is full below the queue, provenance's file, a dump, spilled messages, the audit log or the history",
        );
        env.write("g.2.txt", more);
        let cause = trouble.shows_first(&env, "queue", &format!("no space left for database {database}"));
        assert_eq!(cause.path, "queue/queue_store");
        let free = format!("bytes are free on the file system of {database}");
        assert!(cause.evidence.iter().any(|fact| fact.ends_with(&free)), "{cause:?}");
        assert!(cause.help.starts_with(&format!("df -h {database}; ")), "{cause:?}");
        assert!(run_help(&env, &cause.help).contains("100%"), "{cause:?}");
        disk.free();
        eventually("no cause", || env.causes("queue").is_empty());
    });
}

/// It holds up nothing.
#[test]
fn what_is_no_worker_is_named_in_the_log() {
    let env = TestEnv::new(BINARY);
    let _instance = env.start();
    let trouble = Trouble::begins("something that is no worker writes to the socket");
    let mut worker = env.worker();
    worker.send(b"GET / HTTP/1.1\r\n").expect("it listens");
    assert_eq!(worker.reply(), Reply::Closed);
    let line = trouble.logs(&env, "worker connection closed");
    let pid = line.split("pid ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a process");
    assert_eq!(pid, std::process::id().to_string(), "{line}");
    assert_eq!(env.metric("queue/worker_socket", "malformed"), 1);
}
