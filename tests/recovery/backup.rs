//! `orchestrator backup` and `restore`: what they copy and put back, and what they refuse.
//!
//! The old state has a mark in each file: a table in each database, a line in the audit log, a pause. The
//! backup has none of them.

mod kills;
mod root;

use std::{
    fs::{self, File},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use orchestrator_harness::{Database, Instance, TestEnv};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const DATABASES: [&str; 4] = ["queue.db", "rows/rows.db", "dead.db", "hooks.db"];
/// Journal of a restore that is going on.
const JOURNAL: &str = ".orchestrator-restore";

/// Environment whose configuration is a file.
struct Site {
    env: TestEnv,
    config: PathBuf,
}

impl Site {
    fn new(more: &str) -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
        let config = env.path().join("orchestrator.toml");
        fs::create_dir(env.path().join("rows")).expect("a second directory");
        let path = |name: &str| env.path().join(name).display().to_string();
        let text = format!(
            "[queue]\ndatabase = '{}'\ninput_dir = '{}'\nsocket = '{}'\n
             [provenance]\ndead_letters = '{}'\nsqlite.path = '{}'\n
             [admin]\nlisten = ''\nunix_socket = '{}'\naudit_file = '{}'\n
             [[hook]]\nname = 'failed'\non = 'queue.failed'\nargv = ['/bin/true']\n{more}",
            path("queue.db"),
            path("fetchers"),
            path("worker.sock"),
            path("dead.db"),
            path("rows/rows.db"),
            path("admin.sock"),
            path("audit")
        );
        fs::write(&config, text).expect("the configuration");
        Self { env, config }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.env.path().join(name)
    }

    fn start(&self) -> Instance {
        self.env.start_with(&self.config)
    }

    fn spawn(&self, verb: &str, name: &str) -> Child {
        let mut command = self.env.bare_command();
        command.args([verb, name, "--config"]).arg(&self.config);
        command.spawn().expect("start the command")
    }

    /// Runs `backup` or `restore`, and returns the exit code and the outputs.
    fn run(&self, verb: &str, name: &str, more: &[&str]) -> (i32, String, String) {
        let config = self.config.display().to_string();
        self.env.cli(&[&[verb, name, "--config", &config], more].concat())
    }

    fn succeed(&self, verb: &str, name: &str) -> String {
        let (code, out, err) = self.run(verb, name, &[]);
        assert_eq!((code, err.as_str()), (0, ""), "{verb}: {out}");
        out
    }

    /// Runs a command that must fail with code 1 and `text`.
    fn fail(&self, verb: &str, name: &str, more: &[&str], text: &str) {
        let (code, out, err) = self.run(verb, name, more);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains(text), "{text:?} is not in {err}");
    }

    /// Puts a mark into each file, while no instance runs.
    fn mark(&self) {
        for name in DATABASES {
            Database::open(&self.path(name)).execute("CREATE TABLE old_state (x)");
        }
        fs::write(self.path("queue.db.paused"), "").expect("a pause");
        let audit = fs::read_to_string(self.path("audit")).unwrap_or_default();
        fs::write(self.path("audit"), format!("{audit}{{\"old\":\"state\"}}\n")).expect("the audit log");
    }

    /// Returns true if all files have their mark, false if none has.
    fn has_old_state(&self) -> bool {
        let is_marked = |name: &str| {
            let marks = "SELECT count(*) FROM sqlite_schema WHERE name = 'old_state'";
            Database::open(&self.path(name)).rows(marks) == ["1"]
        };
        let mut marks: Vec<_> = DATABASES.iter().map(|name| is_marked(name)).collect();
        marks.push(self.path("queue.db.paused").exists());
        marks.push(fs::read_to_string(self.path("audit")).unwrap_or_default().contains("old"));
        assert!(
            marks.iter().all(|mark| *mark == marks[0]),
            "parts of both states: {marks:?}; log:\n{}",
            self.env.log()
        );
        marks[0]
    }
}

#[test]
fn what_cannot_be_restored_is_named_and_nothing_is_changed() {
    let site = Site::new("");
    site.fail("restore", "none", &[], "name a directory that `backup` wrote");
    let instance = site.start();
    site.succeed("backup", "good");
    site.fail("backup", "good", &[], "exists: name a directory that does not");
    site.fail("restore", "good", &[], "hooks.db: stop it, and repeat the restore");
    assert!(instance.terminate().success());
    site.mark();

    let copy = |to: &str| {
        let copied = Command::new("cp").arg("-a").args([site.path("good"), site.path(to)]).status();
        assert!(copied.expect("cp").success());
        site.path(to)
    };
    let file = copy("changed").join("queue/database");
    let mut bytes = fs::read(&file).expect("the copy");
    bytes[5_000] ^= 1;
    fs::write(&file, bytes).expect("write");
    site.fail("restore", "changed", &[], "changed/queue/database is not the file that was backed up");
    fs::remove_file(copy("incomplete").join("provenance/rows")).expect("the copy");
    site.fail("restore", "incomplete", &[], "incomplete/provenance/rows: the backup is not whole");

    let edit = |name: &str, change: &dyn Fn(&mut Value)| {
        let file = copy(name).join("manifest.json");
        let mut manifest: Value =
            serde_json::from_slice(&fs::read(&file).expect("it is there")).expect("JSON");
        change(&mut manifest);
        fs::write(file, manifest.to_string()).expect("write");
    };
    edit("newer", &|manifest| manifest["version"] = json!(2));
    site.fail("restore", "newer", &[], "has version 2, and this program knows version 1");
    edit("odd", &|manifest| manifest["entries"][1]["files"][0] = manifest["entries"][3]["files"][0].clone());
    site.fail("restore", "odd", &[], "queue/database has other files than the program writes");
    site.fail("restore", "good", &["--only", "queue"], "the configuration has no provenance/rows");
    let (code, _, err) = site.run("restore", "good", &["--set", "queue.hold=1"]);
    assert!(code == 78 && err.contains("queue.hold"), "{err}");
    assert!(site.has_old_state());

    // The journal of a restore that is going on, and then of one that was killed.
    let journal = site.path(JOURNAL);
    let paths = Sha256::digest(format!("{}\0", site.path("queue.db").display()));
    let paths: String = paths.iter().map(|byte| format!("{byte:02x}")).collect();
    let nothing = json!({ "role": "queue/database", "suffix": "", "has_before": true, "has_new": false });
    fs::write(&journal, json!({ "paths": paths, "moves": [nothing] }).to_string()).expect("a journal");
    let held = File::open(&journal).expect("the journal");
    held.lock().expect("the lock");
    site.fail("backup", "other", &[], "a restore is going on");
    drop(held);
    let (code, _, err) = site.run("backup", "other", &[]);
    assert!(code == 0 && err.contains("undid a restore that was interrupted") && !journal.exists(), "{err}");

    // A program without a database.
    fs::write(site.path("audit"), "{}\n").expect("the audit log");
    let sets = ["admin.listen=''", "admin.unix_socket=other.sock", "admin.audit_file=audit"];
    let sets: Vec<_> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let producer =
        |verb| site.env.cli(&[&[verb, "audit-log", "--only", "producer"], sets.as_slice()].concat());
    assert_eq!(producer("backup").0, 0);
    let listener = UnixListener::bind(site.path("other.sock")).expect("a socket");
    let (code, _, err) = producer("restore");
    assert!(code == 1 && err.contains("other.sock is in use"), "{err}");
    drop(listener);
    assert_eq!(producer("restore").0, 0);
}

#[test]
fn a_restore_puts_everything_where_the_configuration_says_and_keeps_what_was_there() {
    let site = Site::new(
        "[[ingester]]\nname = 'lab'\n[ingester.on_finished]\nrecords = 'records'\n
         [[ingester.stream]]\nname = 'a'\nsource = 'stins'\nupstream_url = 'tcp://localhost:1'\n",
    );
    for name in DATABASES {
        Database::open(&site.path(name)).execute("CREATE TABLE first (x)");
    }
    let record = |name: &str| site.path("records/lab").join(name);
    fs::create_dir_all(record("")).expect("a directory");
    fs::write(record("one.json"), "1").expect("a record");
    fs::write(site.path("audit"), "{}\n{\"incomplete").expect("the audit log");
    fs::write(site.path("queue.db.paused"), "7\n").expect("a pause");
    let out = site.succeed("backup", "backups/1");
    assert!(out.contains("ingester/lab/records") && !out.contains("audit.1"), "{out}");
    let mode = |name: &str| fs::metadata(site.path(name)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode("backups/1"), mode("backups/1/configuration/1.toml")), (0o700, 0o600));

    fs::remove_file(site.path("queue.db.paused")).expect("the pause");
    fs::write(site.path("audit.1"), "{}\n").expect("a former audit log");
    fs::rename(record("one.json"), record("two.json")).expect("another record");
    let moved = site.path("moved/queue.db");
    let at = format!("queue.database={}", moved.display());
    for _ in 0..2 {
        let (code, out, err) = site.run("restore", "backups/1", &["--set", &at]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert_eq!(Database::open(&moved).rows("SELECT name FROM sqlite_schema"), ["first"]);
    }
    assert_eq!(fs::read_to_string(site.path("moved/queue.db.paused")).expect("the pause"), "7\n");
    assert_eq!(fs::read_to_string(site.path("audit")).expect("the audit log"), "{}\n");
    assert!(!site.path("audit.1").exists() && record("one.json").exists() && !record("two.json").exists());
    assert!(
        site.path("rows/rows.db.before-restore").exists()
            && site.path("moved/queue.db.before-restore").exists()
    );

    // A configuration file that differs stays, and one that is missing is that of the backup.
    let text = fs::read_to_string(&site.config).expect("the configuration");
    fs::write(&site.config, format!("{text}\n# changed\n")).expect("write");
    assert!(
        site.succeed("restore", "backups/1")
            .contains("differs from that of the backup and was left as it is")
    );
    fs::remove_file(&site.config).expect("the configuration");
    assert!(site.succeed("restore", "backups/1").contains("orchestrator.toml was missing"));
    assert_eq!(fs::read_to_string(&site.config).expect("the configuration"), text);
    let left =
        fs::read_dir(site.env.path()).expect("the directory").map(|entry| entry.expect("an entry").path());
    let is_left = |path: &Path| {
        let name = path.display().to_string();
        name.ends_with(".restored") || name.contains(JOURNAL)
    };
    assert_eq!(left.filter(|path| is_left(path)).count(), 0, "temporary files");
}

#[test]
fn state_in_servers_is_named_without_passwords() {
    let site = Site::new(
        "[producer]\n[[ingester]]\nname = 'lab'\n
         [[ingester.stream]]\nname = 'a'\nsource = 'stins'\nupstream_url = 'tcp://localhost:1'\n
         [[catalog]]\nname = 'c'\nbase = 'https://c/ermrest/catalog/1'\n",
    );
    let servers = ["--set", "provenance.writer.kind=postgres", "--set", "provenance.transport=amqp"];
    let (code, out, err) = site.run("backup", "backup", &servers);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for line in [
        "provenance: rows, in postgres at postgresql://127.0.0.1:5432/provenance",
        "provenance: waiting and refused rows, in RabbitMQ at amqp://127.0.0.1:5672/",
        "ingester: mappings and positions of lab, in Redis at redis://localhost:6379/0",
        "producer: jobs, in Faktory at tcp://127.0.0.1:7419",
        "producer: stencils, tangles and progress, in MongoDB at mongodb://127.0.0.1:27017/",
        "catalog: rows and claims of c, in ERMrest at https://c/ermrest/catalog/1",
    ] {
        assert!(
            out.contains(&format!("not included, since its administrator backs it up: {line}")),
            "{line}: {out}"
        );
    }
    assert!(!out.contains("guest"), "{out}");
    let manifest = fs::read_to_string(site.path("backup/manifest.json")).expect("the manifest");
    assert!(manifest.contains("not_included") && !manifest.contains("guest"), "{manifest}");
}
