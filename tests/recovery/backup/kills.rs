//! Backups under load and restores that are killed. Nothing that was acknowledged before the backup is
//! missing after its restore. After a kill, the state is entirely the old or entirely the restored one.

use std::{
    fs,
    process::{Child, Command},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Reply, Worker,
    load::{SeededRng, for_each_seed},
    wait_for,
};
use serde_json::{Value, json};

use super::{JOURNAL, Site};

/// Kills of one restore.
const KILLS: usize = 4;

/// Workers of the queue and imports of rows, with what was acknowledged to them.
struct Load {
    stop: Arc<AtomicBool>,
    /// Attribute paths of jobs whose DONE was answered.
    done: Arc<Mutex<Vec<String>>>,
    /// Number of stored locations.
    rows: Arc<Mutex<u64>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(site: &Site) -> Self {
        let (stop, done, rows) = <(Arc<AtomicBool>, Arc<Mutex<Vec<String>>>, Arc<Mutex<u64>>)>::default();
        let mut threads = Vec::new();
        for _ in 0..3 {
            let (stop, done, socket) = (stop.clone(), done.clone(), site.env.socket());
            threads.push(thread::spawn(move || {
                let mut worker = Worker::connect(&socket).expect("the queue runs");
                let mut job: Option<String> = None;
                while !stop.load(Relaxed) {
                    let request = job.as_ref().map_or("READY\n".to_owned(), |job| format!("DONE {job} 0\n"));
                    let Ok(()) = worker.send(request.as_bytes()) else { return };
                    let next = match worker.try_reply() {
                        Ok(Reply::Job { attr_path, .. }) => Some(attr_path),
                        Ok(Reply::NoJobs) => None,
                        Ok(Reply::Closed) | Err(_) => return,
                    };
                    done.lock().expect("no panic").extend(job.take());
                    job = next;
                }
            }));
        }
        let (ended, stored, folder) = (stop.clone(), rows.clone(), site.env.path().to_owned());
        let (binary, socket) = (site.env.binary().to_owned(), site.env.admin_socket());
        threads.push(thread::spawn(move || {
            for batch in 0.. {
                if ended.load(Relaxed) {
                    return;
                }
                let line = |i| format!("{}\n", json!({ "add": "location", "path": format!("{batch}/{i}") }));
                let file = folder.join(format!("{batch}.jsonl"));
                fs::write(&file, (0..100).map(line).collect::<String>()).expect("rows");
                let mut import = Command::new(&binary);
                import.args(["provenance", "import"]).arg(&file).env("ORCHESTRATOR_SOCKET", &socket);
                if import.output().expect("start the import").status.success() {
                    *stored.lock().expect("no panic") += 100;
                }
            }
        }));
        Self { stop, done, rows, threads }
    }

    fn acknowledged(&self) -> (Vec<String>, u64) {
        (self.done.lock().expect("no panic").clone(), *self.rows.lock().expect("no panic"))
    }

    /// Waits until something more was acknowledged to both.
    fn await_progress(&self) {
        let (done, rows) = self.acknowledged();
        wait_for("further acknowledgements", || {
            let now = self.acknowledged();
            (now.0.len() > done.len() && now.1 > rows).then_some(())
        });
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[test]
fn nothing_that_was_acknowledged_is_missing_and_kills_leave_one_state() {
    for_each_seed("ORCHESTRATOR_BACKUP_KILL_ROUNDS", 2, round);
}

fn round(seed: u64) {
    let mut rng = SeededRng::new(seed);
    let site = Site::new("");
    site.env.write("f.1.txt", (0..20_000).map(|i| format!("attr{i} 0 1\n")).collect::<String>());
    let instance = site.start();
    let load = Load::start(&site);
    load.await_progress();

    let begun = Instant::now();
    site.succeed("backup", "first");
    let whole = begun.elapsed();
    for _ in 0..2 {
        kill_after(site.spawn("backup", "backup"), whole.mul_f64(rng.below(1_000) as f64 / 1_000.0));
        if site.path("backup").exists() {
            assert!(site.path("backup/manifest.json").exists(), "a backup that is not whole");
            fs::remove_dir_all(site.path("backup")).expect("a directory");
        }
    }
    let (done, rows) = load.acknowledged();
    site.succeed("backup", "backup");
    assert!(!site.path("backup.partial").exists(), "what a kill left is gone");
    load.await_progress();
    instance.kill_nine();
    drop(load);
    site.mark();

    let (mut undone, mut is_old) = (0, true);
    for _ in 0..KILLS {
        let mut restore = site.spawn("restore", "backup");
        if rng.chance(60) {
            // The renames take less than a thousandth of the time.
            while !site.path(JOURNAL).exists() && restore.try_wait().expect("it is ours").is_none() {}
            kill_after(restore, Duration::from_micros(rng.below(1_500) as u64));
        } else {
            kill_after(restore, whole.mul_f64(rng.below(1_000) as f64 / 1_000.0));
        }
        undone += usize::from(site.path(JOURNAL).exists());
        let instance = site.start();
        is_old = site.has_old_state();
        instance.kill_nine();
        if !is_old {
            break;
        }
    }
    if is_old {
        site.succeed("restore", "backup");
    }
    let instance = site.start();
    assert!(!site.has_old_state());
    let log = site.env.database().rows("SELECT attr_path FROM log WHERE exit_code = 0");
    let missing: Vec<_> = done.iter().filter(|done| !log.contains(done)).collect();
    assert!(missing.is_empty(), "{missing:?} were done before the backup");
    let (code, out, err) = site.env.cli(&["provenance", "stats", "--json"]);
    let stored = serde_json::from_str::<Value>(&out).expect("JSON")["location"].as_u64().expect("a count");
    assert!(code == 0 && stored >= rows, "{stored} of {rows} rows; {err}");
    assert!(matches!(site.env.worker().ready(), Reply::Job { .. }), "the queue goes on");
    assert!(instance.terminate().success(), "log:\n{}", site.env.log());
    assert_eq!(site.env.log().matches("undid a restore that was interrupted").count(), undone);
    eprintln!("seed {seed}: {} jobs and {rows} rows before the backup, {undone} restores undone", done.len());
}

/// Kills the process after `delay`, unless it has ended.
fn kill_after(mut process: Child, delay: Duration) {
    sleep(delay);
    let _ = process.kill();
    process.wait().expect("it is ours");
}
