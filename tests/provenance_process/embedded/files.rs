//! The files of the store and of the dead letters: deleted or moved while they are open, on a full disk, in a directory that nobody
//! may write.

use std::fs;

use orchestrator_harness::{ProvenanceEnv, SmallDisk, eventually, sha1_of};
use serde_json::json;

use super::site;

fn contents(site: &ProvenanceEnv, numbers: std::ops::Range<u32>) -> String {
    site.file(numbers.map(|number| json!({"add": "content", "id": sha1_of(0, number)})))
}

fn import(site: &ProvenanceEnv, numbers: std::ops::Range<u32>) {
    let rows = contents(site, numbers.clone());
    eventually("an import", || site.base().cli(&["provenance", "import", &rows]).0 == 0);
}

/// Rows that were answered for are in the file at the path.
#[test]
fn a_store_that_is_deleted_moved_or_replaced_is_opened_anew_before_anything_is_answered() {
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
        let site = site();
        let path = site.base().path().join("provenance.db");
        let instance = site.start();
        import(&site, 0..100);
        fs::copy(&path, path.with_extension("copy")).expect("copy");
        change(&path);
        import(&site, 100..200);
        eventually(what, || site.base().log().contains("while it was open"));
        eventually(what, || site.base().link("provenance/writer").state == "up");
        instance.kill_nine();
        let instance = site.start();
        let last = site.ask(&["get", "content", &sha1_of(0, 1)]);
        assert!(site.count("content") >= 100, "{what}: {last}");
        assert!(instance.terminate().success(), "{}", site.base().log());
    }
}

#[test]
fn dead_letters_that_are_deleted_are_kept_anew() {
    let site = site();
    let path = site.base().path().join("dead-letters.db");
    let instance = site.start();
    assert_eq!(site.ask(&["dead-letters"]), json!([]));
    fs::remove_file(&path).expect("remove");
    eventually("an answer of the new file", || {
        site.base().cli(&["provenance", "dead-letters", "--json"]).0 == 0 && path.exists()
    });
    assert!(site.base().log().contains("while it was open"), "{}", site.base().log());
    assert!(instance.terminate().success(), "{}", site.base().log());
}

#[test]
fn a_full_disk_is_waited_for_and_costs_no_row() {
    SmallDisk::with(8, "embedded::files::a_full_disk_is_waited_for_and_costs_no_row", |disk| {
        let site = site()
            .set(&format!("provenance.sqlite.path={}", disk.path().join("p.db").display()))
            .set(&format!("provenance.dead_letters={}", disk.path().join("d.db").display()))
            .set("links.retry_max_ms=500");
        let instance = site.start();
        import(&site, 0..100);
        disk.fill();
        let rows = contents(&site, 100..5_000);
        eventually("the link to be down", || {
            assert_ne!(site.base().cli(&["provenance", "import", &rows]).0, 0);
            site.base().link("provenance/writer").reason.contains("the disk is full")
        });
        assert_eq!(site.count("content"), 100, "questions are answered");
        disk.free();
        eventually("the link to be up", || site.base().link("provenance/writer").state == "up");
        import(&site, 0..5_000);
        assert_eq!(site.count("content"), 5_000);
        assert!(instance.terminate().success(), "{}", site.base().log());
    });
}

/// Whoever starts it is told; a directory that becomes unwritable later is a state of the link.
#[test]
fn a_directory_that_nobody_may_write_is_named_at_the_start() {
    SmallDisk::with(8, "embedded::files::a_directory_that_nobody_may_write_is_named_at_the_start", |disk| {
        let site = site().set(&format!("provenance.sqlite.path={}", disk.path().join("p.db").display()));
        let remount = |how: &str| {
            let mut mount = std::process::Command::new("mount");
            mount.args(["-o", &format!("remount,{how}")]).arg(disk.path());
            assert!(mount.status().expect("mount runs").success());
        };
        remount("ro");
        let mut instance = orchestrator_harness::Instance::spawn(site.command());
        assert_eq!(instance.wait().code(), Some(78), "{}", site.base().log());
        assert!(site.base().log().contains("p.db"), "{}", site.base().log());
        remount("rw");
        let instance = site.start();
        import(&site, 0..10);
        assert_eq!(site.count("content"), 10);
        assert!(instance.terminate().success());
    });
}
