//! Symbolic links in the input directory: whose links are followed (CONTRACT QR52).

use std::{
    fs,
    os::unix::fs::{lchown, symlink},
    path::Path,
    process::Command,
};

use orchestrator_harness::{TestEnv, eventually};
use serde_json::json;

use crate::site;

const ATTRS: &str = "SELECT attr_path FROM queue ORDER BY 1";
const RUNS: &str = "SELECT name, run_started FROM fetcher_runs JOIN fetchers USING (fetcher_id) ORDER BY 1";
/// User that is neither root nor the test's.
const OTHER_USER: u32 = 4_321;

/// Gives a file or a link to the other user.
fn give(path: &Path) {
    if rustix::process::geteuid().is_root() {
        lchown(path, Some(OTHER_USER), None).expect("give it to the other user");
        return;
    }
    let status = Command::new("sudo").args(["-n", "chown", "-h", &OTHER_USER.to_string()]).arg(path).status();
    assert!(status.is_ok_and(|status| status.success()), "chown needs root or sudo");
}

/// Creates a link to `target` under `name` that belongs to the other user from its beginning.
fn link(site: &TestEnv, target: &Path, name: &str) {
    let staged = site.path().join("staged");
    symlink(target, &staged).expect("a link");
    give(&staged);
    fs::rename(&staged, site.file(name)).expect("the input directory is ours");
}

#[test]
fn r52_a_link_to_a_file_of_another_user_is_not_followed() {
    let site = site();
    let (tokens, theirs) = (site.path().join("tokens"), site.path().join("theirs"));
    fs::write(&tokens, "operator bob secret\n").expect("write a file");
    fs::write(&theirs, "bravo 0 1\n").expect("write a file");
    give(&theirs);
    // An earlier version has read the first one to its end.
    symlink(&tokens, site.file("early.1.txt")).expect("a link");
    let instance = site.start();
    site.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    assert!(instance.terminate().success());
    give(&site.file("early.1.txt"));

    let _instance = site.start();
    site.database().expect(RUNS, &[]);
    for name in ["whole.1.txt", "growing.1.txt.part"] {
        link(&site, &tokens, name);
    }
    // By way of a link of ours to a link of the other user.
    link(&site, &tokens, "../hop");
    symlink("../hop", site.file("chain.1.txt")).expect("a link");
    // Followed: a link of ours, and a link of the other user to a file of the same user.
    link(&site, &theirs, "followed.1.txt");
    fs::write(site.path().join("ours"), "charlie 0 1\n").expect("write a file");
    symlink(site.path().join("ours"), site.file("ours.1.txt")).expect("a link");
    site.database().expect(ATTRS, &["bravo", "charlie"]);
    site.database().expect(RUNS, &["followed|1", "ours|1"]);

    let refused = ["early.1.txt", "whole.1.txt", "growing.1.txt.part", "chain.1.txt"];
    eventually("the refused links to be counted", || site.metric("queue/reader", "refused_links") == 4);
    let log = site.log();
    for name in refused {
        let warnings =
            log.lines().filter(|line| line.contains("WARN") && line.contains(&format!("name=\"{name}\"")));
        assert_eq!(warnings.count(), 1, "{name}: {log}");
    }
    assert!(log.contains("a symbolic link of uid 4321 to a file of uid"), "{log}");
    assert!(
        site.node("queue/reader")["note"]["text"].as_str().is_some_and(|note| note.starts_with("ignored "))
    );
    let (code, out, err) = site.cli(&["queue", "ls"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for name in refused {
        assert!(out.contains(&format!("{name}: a symbolic link of uid 4321")), "{name}: {out}");
    }

    // A file that takes the name is read, and is not listed as refused any more.
    site.remove("whole.1.txt");
    site.write("whole.1.txt", "delta 0 1\n");
    site.database().expect(ATTRS, &["bravo", "charlie", "delta"]);
    let (_, out, _) = site.cli(&["queue", "ls", "--json"]);
    let rows: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let row = rows.as_array().expect("rows").iter().find(|row| row["fetcher"] == "whole").expect("its run");
    assert_eq!((&row["rows"], row.get("refused")), (&json!(1), None), "{rows}");
}
