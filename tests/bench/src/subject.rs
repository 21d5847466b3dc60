//! The program under measurement, in its own test environment.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result};
use orchestrator_harness::{Reply, Worker, wait_for};
use tempfile::TempDir;

/// A running program with its three paths.
pub(crate) struct Subject {
    pub(crate) directory: TempDir,
    command: Vec<String>,
    sees_renames: bool,
    child: Option<Child>,
}

impl Subject {
    /// Prepares a site; `command` takes database, input directory and socket as its last arguments, and sees
    /// files that are renamed into the input directory, or only those that are linked there.
    pub(crate) fn new(command: Vec<String>, sees_renames: bool, base: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("bench-").tempdir_in(base)?;
        std::fs::create_dir(directory.path().join("fetchers"))?;
        Ok(Self { directory, command, sees_renames, child: None })
    }

    /// Prepares a site of `binary` with a configuration beside its three paths.
    pub(crate) fn configured(binary: &Path, configuration: &str) -> Result<Self> {
        const START: &str = "exec \"$0\" run --config \"$1.toml\" --set queue.database=\"$1\" \
            --set queue.input_dir=\"$2\" --set queue.socket=\"$3\"";
        let command =
            ["sh", "-c", START].map(str::to_owned).into_iter().chain([binary.display().to_string()]);
        let subject = Self::new(command.collect(), true, &std::env::temp_dir())?;
        subject.configure(configuration)?;
        Ok(subject)
    }

    /// Replaces the configuration of a site that has one.
    pub(crate) fn configure(&self, configuration: &str) -> Result<()> {
        Ok(std::fs::write(self.path("queue.db.toml"), configuration)?)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("worker.sock")
    }

    /// Starts it; returns at once.
    pub(crate) fn start(&mut self) -> Result<()> {
        let log = std::fs::File::create(self.path("log"))?;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command.args([self.path("queue.db"), self.path("fetchers"), self.socket()]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn().context("start the program")?);
        Ok(())
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// A connected worker.
    pub(crate) fn worker(&self) -> Worker {
        wait_for("the worker socket", || Worker::connect(&self.socket()).ok())
    }

    /// Seconds until the first answer.
    pub(crate) fn first_answer(&self) -> (f64, Reply) {
        let start = Instant::now();
        let reply = self.worker().ready();
        (start.elapsed().as_secs_f64(), reply)
    }

    /// A line from /proc/PID/status in MiB.
    pub(crate) fn memory_mib(&self, field: &str) -> Result<f64> {
        let pid = self.child.as_ref().context("it runs")?.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find(|line| line.starts_with(field)).context("a known field")?;
        let kib: f64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
        Ok(kib / 1024.0)
    }

    /// Writes a complete fetcher file of `rows` lines beside the input directory and moves it in.
    pub(crate) fn publish(&self, name: &str, rows: usize) -> Result<()> {
        let text: String =
            (0..rows).map(|i| format!("{} {}\n", row::attr_path(i), row::payload(i))).collect();
        let part = self.path("staged");
        std::fs::write(&part, text)?;
        self.move_in("staged", name)
    }

    /// Moves a file of the site into the input directory, at once and whole.
    pub(crate) fn move_in(&self, from: &str, name: &str) -> Result<()> {
        let to = self.path("fetchers").join(name);
        if !self.sees_renames {
            std::fs::hard_link(self.path(from), &to)?;
            return Ok(std::fs::remove_file(self.path(from))?);
        }
        Ok(std::fs::rename(self.path(from), to)?)
    }

    /// Waits until there are `runs` runs, all complete, with `rows` rows between them.
    pub(crate) fn await_rows(&self, runs: i64, rows: i64) {
        let db = wait_for("the database", || {
            rusqlite::Connection::open(self.path("queue.db")).ok().filter(|db| {
                db.query_row("SELECT count(*) FROM fetcher_runs", [], |row| row.get::<_, i64>(0)).is_ok()
            })
        });
        // A writer's lock is asked for again as often as anything else, not in SQLite's growing steps.
        db.busy_timeout(std::time::Duration::ZERO).expect("a timeout");
        // Ten million rows took ten minutes on a slow day.
        let give_up = Instant::now() + std::time::Duration::from_secs(600 + rows.unsigned_abs() / 5_000);
        loop {
            // The cheap question first: counting rows would disturb what is measured.
            let settled = db
                .query_row("SELECT count(*), total(is_complete) FROM fetcher_runs", [], |row| {
                    Ok(row.get::<_, i64>(0)? == runs && row.get::<_, f64>(1)? as i64 == runs)
                })
                .unwrap_or(false);
            if settled {
                let count =
                    db.query_row("SELECT count(*) FROM queue", [], |row| row.get::<_, i64>(0)).unwrap_or(0);
                if count == rows {
                    return;
                }
            }
            assert!(Instant::now() < give_up, "the rows did not arrive");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.kill();
    }
}

/// Values of the lines of a file.
pub(crate) mod row {
    pub(crate) fn attr_path(i: usize) -> String {
        format!("python3Packages.package-{i}")
    }

    pub(crate) fn payload(i: usize) -> String {
        format!("{i}.0.1 {i}.1.0 https://example.org/{i}")
    }
}
