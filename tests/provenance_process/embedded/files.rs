//! Files of the store and the dead letters: deleted or moved while open, on a full disk, in a read-only
//! directory.

use std::fs;

use orchestrator_harness::{ProvenanceEnv, SmallDisk, eventually, sha1_of};
use serde_json::json;

use super::env;

fn contents(env: &ProvenanceEnv, numbers: std::ops::Range<u32>) -> String {
    env.file(numbers.map(|number| json!({"add": "content", "id": sha1_of(0, number)})))
}

fn import(env: &ProvenanceEnv, numbers: std::ops::Range<u32>) {
    let rows = contents(env, numbers.clone());
    eventually("an import", || env.base().cli(&["provenance", "import", &rows]).0 == 0);
}

/// Acknowledged rows are in the file at the configured path.
#[test]
fn a_deleted_moved_or_replaced_store_is_reopened() {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 4] = [
        ("deleted", |path| fs::remove_file(path).expect("remove")),
        ("moved", |path| fs::rename(path, path.with_extension("aside")).expect("move")),
        ("moved with its log", |path| {
            for suffix in ["", "-wal", "-shm"] {
                let name = format!("{}{suffix}", path.display());
                fs::rename(&name, format!("{name}.aside")).expect("move");
            }
        }),
        ("replaced by an older copy", |path| {
            let copy = path.with_extension("copy");
            fs::rename(copy, path).expect("replace");
        }),
    ];
    for (what, change) in changes {
        let env = env();
        let path = env.base().path().join("provenance.db");
        let instance = env.start();
        import(&env, 0..100);
        fs::copy(&path, path.with_extension("copy")).expect("copy");
        change(&path);
        import(&env, 100..200);
        eventually(what, || env.base().log().contains("while it was open"));
        eventually(what, || env.base().link("provenance/writer").state == "up");
        instance.kill_nine();
        let instance = env.start();
        let last = env.ask(&["get", "content", &sha1_of(0, 1)]);
        assert!(env.count("content") >= 100, "{what}: {last}");
        assert!(instance.terminate().success(), "{}", env.base().log());
    }
}

#[test]
fn a_deleted_dead_letter_file_is_created_again() {
    let env = env();
    let path = env.base().path().join("dead-letters.db");
    let instance = env.start();
    assert_eq!(env.ask(&["dead-letters"]), json!([]));
    fs::remove_file(&path).expect("remove");
    eventually("an answer of the new file", || {
        env.base().cli(&["provenance", "dead-letters", "--json"]).0 == 0 && path.exists()
    });
    assert!(env.base().log().contains("while it was open"), "{}", env.base().log());
    assert!(instance.terminate().success(), "{}", env.base().log());
}

#[test]
fn a_full_disk_loses_no_row() {
    SmallDisk::with(8, "embedded::files::a_full_disk_loses_no_row", |disk| {
        let env = env()
            .set(&format!("provenance.sqlite.path={}", disk.path().join("p.db").display()))
            .set(&format!("provenance.dead_letters={}", disk.path().join("d.db").display()))
            .set("links.retry_max_ms=500");
        let instance = env.start();
        import(&env, 0..100);
        disk.fill();
        let rows = contents(&env, 100..5_000);
        eventually("the link to be down", || {
            assert_ne!(env.base().cli(&["provenance", "import", &rows, "--wait-min-secs", "1"]).0, 0);
            env.base().link("provenance/writer").reason.contains("the disk is full")
        });
        let cause = env.base().first_cause("provenance", " bytes are free on the file system of ");
        let database = disk.path().join("p.db").display().to_string();
        assert!(cause.path == "provenance/writer" && cause.text.contains(&database), "{cause:?}");
        assert!(cause.help.starts_with(&format!("df -h {database}; ")), "{cause:?}");
        assert_eq!(env.count("content"), 100, "queries are answered");
        disk.free();
        eventually("the link to be up", || env.base().link("provenance/writer").state == "up");
        import(&env, 0..5_000);
        assert_eq!(env.count("content"), 5_000);
        assert!(instance.terminate().success(), "{}", env.base().log());
    });
}

/// A directory that becomes read-only later is reported by the link.
#[test]
fn a_read_only_directory_prevents_the_start() {
    SmallDisk::with(8, "embedded::files::a_read_only_directory_prevents_the_start", |disk| {
        let env = env().set(&format!("provenance.sqlite.path={}", disk.path().join("p.db").display()));
        let remount = |how: &str| {
            let mut mount = std::process::Command::new("mount");
            mount.args(["-o", &format!("remount,{how}")]).arg(disk.path());
            assert!(mount.status().expect("mount runs").success());
        };
        remount("ro");
        let mut instance = orchestrator_harness::Instance::spawn(env.command());
        assert_eq!(instance.wait().code(), Some(78), "{}", env.base().log());
        assert!(env.base().log().contains("p.db"), "{}", env.base().log());
        remount("rw");
        let instance = env.start();
        import(&env, 0..10);
        assert_eq!(env.count("content"), 10);
        assert!(instance.terminate().success());
    });
}
