//! Commands of root on the files of another user, who plants links, named pipes and journals there. Nothing
//! of root is changed, read or given away, and nothing waits for ever.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use orchestrator_harness::Database;
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::geteuid,
};
use serde_json::json;
use tempfile::TempDir;

/// Users of the files. The second one has no name.
const USERS: [u32; 2] = [65_534, 61_234];
/// Content of root's files, which no other user can read.
const SECRET: &str = "root:secret";

/// Directory of root with the configuration, a directory `state` of another user, and `private`, which only
/// root may enter.
struct Site {
    directory: TempDir,
}

impl Site {
    /// Creates the files, or returns none: only root can.
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let site = Self { directory: TempDir::new().expect("a directory") };
        let path = |name: &str| site.path(name).display().to_string();
        fs::set_permissions(site.directory.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        for (name, mode) in [("state", 0o755), ("state/rows", 0o755), ("page", 0o755), ("private", 0o700)] {
            fs::create_dir(site.path(name)).expect("a directory");
            fs::set_permissions(site.path(name), fs::Permissions::from_mode(mode)).expect("it is ours");
        }
        fs::create_dir_all(site.path("private/root/tree")).expect("a directory");
        fs::write(site.path("private/root/shadow"), SECRET).expect("a file");
        fs::write(site.path("private/root/tree/file"), SECRET).expect("a file");
        let text = format!(
            "[queue]\ndatabase = '{}'\ninput_dir = '{}'\nsocket = '{}'\n
             [provenance]\ndead_letters = '{}'\nsqlite.path = '{}'\n
             [admin]\nlisten = ''\naudit_file = '{}'\n",
            path("state/queue.db"),
            path("state/fetchers"),
            path("state/worker.sock"),
            path("state/dead.db"),
            path("state/rows/rows.db"),
            path("state/audit"),
        );
        fs::write(site.path("orchestrator.toml"), text).expect("the configuration");
        for name in ["state/queue.db", "state/dead.db", "state/rows/rows.db"] {
            Database::open(&site.path(name)).execute("CREATE TABLE first (x)");
        }
        fs::write(site.path("state/audit"), "{}\n").expect("the audit log");
        fs::write(site.path("state/queue.db.paused"), "7\n").expect("a pause");
        site.give("state", USERS[0]);
        site.give("page", USERS[0]);
        Some(site)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Gives everything at `name` to a user, but not to the group.
    fn give(&self, name: &str, uid: u32) {
        for path in everything(&self.path(name)) {
            std::os::unix::fs::lchown(path, Some(uid), None).expect("root gives it away");
        }
    }

    /// Runs a command for at most a minute. Returns its code and what it wrote to standard error.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "60", env!("CARGO_BIN_EXE_orchestrator")]).args(arguments);
        command.arg("--config").arg(self.path("orchestrator.toml"));
        let output = command.current_dir(self.directory.path()).stdin(Stdio::null()).output();
        let output = output.expect("start the command");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn succeed(&self, arguments: &[&str]) {
        assert_eq!(self.run(arguments), (Some(0), String::new()), "{arguments:?}");
    }

    /// Path, owner, mode and content of what is root's.
    fn of_root(&self) -> Vec<(PathBuf, u32, u32, String)> {
        let mut found = Vec::new();
        for name in ["private/root", "orchestrator.toml"] {
            for path in everything(&self.path(name)) {
                let metadata = fs::symlink_metadata(&path).expect("it is there");
                let text = fs::read_to_string(&path).unwrap_or_default();
                found.push((path, metadata.uid(), metadata.mode(), text));
            }
        }
        found.sort();
        found
    }
}

/// `path` and all below it, without following links.
fn everything(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        for entry in fs::read_dir(path).expect("the directory") {
            found.extend(everything(&entry.expect("an entry").path()));
        }
    }
    found
}

#[test]
fn root_works_as_the_owner_of_the_files() {
    let Some(site) = Site::new() else { return };
    for (round, uid) in USERS.into_iter().enumerate() {
        site.give("state", uid);
        site.give("page", uid);
        // The owner cannot enter the directory of the backup. What an interrupted backup left there is
        // replaced.
        let name = format!("private/backups/{round}");
        fs::create_dir_all(site.path(&format!("{name}.partial/queue"))).expect("a directory");
        site.succeed(&["backup", &name]);
        let made = fs::metadata(site.path(&name)).expect("the backup");
        assert_eq!((made.uid(), made.mode() & 0o777), (0, 0o700));
        let copied = everything(&site.path(&name));
        assert!(copied.len() >= 10 && copied.iter().all(|path| !path.ends_with(".partial")), "{copied:?}");
        if round == 0 {
            // As an earlier version left it, and as a copy of root.
            for path in copied {
                chown(path, Some(0), Some(0)).expect("root takes it");
            }
        }

        Database::open(&site.path("state/queue.db")).execute("CREATE TABLE second (x)");
        fs::remove_file(site.path("state/queue.db.paused")).expect("the pause");
        site.give("state", uid);
        site.succeed(&["restore", &name]);
        // The page is the owner's, too.
        let page = site.path("page").display().to_string();
        let (code, err) = site.run(&["queue", "export", "--html", &page]);
        assert!(code == Some(1) && err.contains("no such table"), "{err}");
        let tables = Database::open(&site.path("state/queue.db")).rows("SELECT name FROM sqlite_schema");
        assert_eq!(tables, ["first"]);
        assert_eq!(fs::read_to_string(site.path("state/queue.db.paused")).expect("the pause"), "7\n");
        for path in everything(&site.path("state")) {
            assert_eq!(fs::symlink_metadata(&path).expect("it is there").uid(), uid, "{path:?}");
        }
        site.succeed(&["restore", &name]);
    }

    // A backup below the owner's directory is the owner's.
    site.succeed(&["backup", "state/backup"]);
    assert_eq!(fs::metadata(site.path("state/backup")).expect("the backup").uid(), USERS[1]);
    site.succeed(&["restore", "state/backup"]);

    // The owner could have written the configuration in a backup.
    fs::rename(site.path("orchestrator.toml"), site.path("moved.toml")).expect("the configuration");
    for name in ["state/backup", "private/backups/0", "private/backups/1"] {
        let (code, err) = site.run(&["restore", name]);
        assert!(code == Some(1) && err.contains("orchestrator.toml is missing: examine"), "{err}");
    }
    fs::rename(site.path("moved.toml"), site.path("orchestrator.toml")).expect("the configuration");
    fs::set_permissions(site.path("orchestrator.toml"), fs::Permissions::from_mode(0o600)).expect("ours");
    let (code, err) = site.run(&["backup", "private/backups/2"]);
    assert!(code == Some(78) && err.contains(&format!("let user {} read it", USERS[1])), "{err}");
    assert!(!site.path("private/backups/2.partial").exists());

    // Files of two users.
    Database::open(&site.path("rows.db")).execute("CREATE TABLE first (x)");
    let set = format!("provenance.sqlite.path={}", site.path("rows.db").display());
    for arguments in [["backup", "b", "--set", &set], ["restore", "private/backups/0", "--set", &set]] {
        let (code, err) = site.run(&arguments);
        let users = ["queue/database at ", "to user 61234 and provenance/", "rows.db to root"];
        assert!(code == Some(1) && users.iter().all(|part| err.contains(part)), "{err}");
    }
}

/// Something that the owner of the files puts at a name below `state`.
enum Planted {
    Link(&'static str),
    Pipe,
    Text(String),
}

impl Planted {
    fn put(&self, site: &Site, name: &str) {
        let path = site.path(name);
        let metadata = fs::symlink_metadata(&path);
        if metadata.as_ref().is_ok_and(fs::Metadata::is_dir) {
            fs::remove_dir_all(&path).expect("it is there");
        } else if metadata.is_ok() {
            fs::remove_file(&path).expect("it is there");
        }
        match self {
            Self::Link(to) => symlink(site.path(to), &path).expect("a link"),
            Self::Pipe => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe"),
            Self::Text(text) => fs::write(&path, text).expect("a file"),
        }
        site.give(name, USERS[0]);
    }
}

#[test]
fn what_the_owner_plants_changes_reads_and_stops_nothing_of_root() {
    let Some(site) = Site::new() else { return };
    site.succeed(&["backup", "private/good"]);
    let before = site.of_root();
    let private = site.path("private/root");
    let paths = |path: &str| json!({ "path": private.join("shadow"), "before": site.path(path), "new": private.join("tree") });
    let former =
        json!({ "files": [site.path("state/.orchestrator-restore")], "moves": [paths("state/audit")] });
    let text = |value: serde_json::Value| Planted::Text(value.to_string());
    let role = |role: &str, suffix: &str| {
        let each = json!({ "role": role, "suffix": suffix, "has_before": false, "has_new": true });
        text(json!({ "paths": "", "moves": [each] }))
    };
    let journal = "state/.orchestrator-restore";
    let mut all = vec![
        (journal, text(former)),
        (journal, role("../../private", "")),
        (journal, role("queue/database", "/../../private/root/shadow")),
        ("state/rows", Planted::Link("private/root/tree")),
        ("state/queue.db", Planted::Link("private/root/shadow")),
    ];
    for (name, target) in [
        (journal, "private/root/shadow"),
        ("state/.orchestrator-restore.new", "private/root/shadow"),
        ("state/audit", "private/root/shadow"),
        ("state/audit.1", "private/root/none"),
        ("state/audit.restored", "private/root/tree"),
        ("state/audit.before-restore", "private/root/tree"),
        ("state/queue.db.paused", "private/root/shadow"),
        ("state/queue.db.orchestrator-lock", "private/root/shadow"),
        ("state/queue.db.restored", "private/root/shadow"),
        ("state/queue.db-wal", "private/root/shadow"),
        ("state/queue.db-journal", "private/root/shadow"),
        ("state/dead.db", "private/root/none"),
    ] {
        all.extend([(name, Planted::Link(target)), (name, Planted::Pipe)]);
    }
    let (page, pristine) = (site.path("page").display().to_string(), site.path("private/pristine"));
    let copy = |from: &Path, to: &Path| {
        assert!(Command::new("cp").arg("-a").args([from, to]).status().expect("cp").success());
    };
    copy(&site.path("state"), &pristine);
    let offline = ["queue", "export", "--html", &page];
    for (name, planted) in &all {
        for arguments in [&["backup", "private/taken"][..], &offline, &["restore", "private/good"]] {
            if arguments == offline && !name.contains("queue.db") && *name != journal {
                continue;
            }
            planted.put(&site, name);
            let (code, err) = site.run(arguments);
            let what = format!("{arguments:?} with {name}: {err}");
            assert!(code.is_some_and(|code| code < 100), "{code:?}, {what}");
            assert_eq!(site.of_root(), before, "{what}");
            let taken = ["state", "private/taken"].map(|name| everything(&site.path(name)));
            for path in taken.iter().flatten() {
                let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
                let text = if is_file { fs::read(path).expect("root reads all") } else { Vec::new() };
                assert!(
                    !text.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()),
                    "{path:?}, {what}"
                );
            }
        }
        for name in ["state", "private/taken"] {
            let _ = fs::remove_dir_all(site.path(name));
        }
        copy(&pristine, &site.path("state"));
    }
}

/// Shell that plants without end.
struct Planter(Child);

impl Drop for Planter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_the_owner_plants_while_root_works_changes_nothing_of_root() {
    let Some(site) = Site::new() else { return };
    site.succeed(&["backup", "private/good"]);
    let before = site.of_root();
    let script = "cd state; while :; do for f in audit audit.restored audit.before-restore queue.db.paused \
                  queue.db.restored rows.db.restored .orchestrator-restore; do \
                  rm -rf $f; ln -s ../private/root/shadow $f; rm -f $f; ln -s ../private/root/tree $f; rm -f $f; mkfifo $f; done; \
                  mv rows r2; ln -s ../private/root/tree rows; rm rows; mv r2 rows; done";
    let mut planter = Command::new("sh");
    planter.args(["-c", script]).current_dir(site.directory.path()).uid(USERS[0]).gid(USERS[0]);
    let _planter =
        Planter(planter.stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("start the shell"));
    for round in 0..4 {
        for arguments in [["backup", "private/taken"], ["restore", "private/good"]] {
            let (code, err) = site.run(&arguments);
            assert!(code.is_some_and(|code| code < 100), "round {round}: {code:?}, {err}");
            assert_eq!(site.of_root(), before, "round {round}: {err}");
        }
        let _ = fs::remove_dir_all(site.path("private/taken"));
    }
}
