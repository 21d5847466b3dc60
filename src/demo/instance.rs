//! The instance under load: a process of this binary, in the demo's directory.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{parts::Parts, table};
use crate::cli::{address::Address, client::Client};

/// Address of the console, unless something else listens there.
const CONSOLE: &str = "127.0.0.1:7117";
/// Longest wait for the start, and for a restart of children.
const START_MAX: Duration = Duration::from_secs(30);
/// Longest wait for the end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(30);

pub(super) struct Instance {
    folder: PathBuf,
    console: SocketAddr,
    process: Mutex<Option<Child>>,
    restarts: AtomicU64,
}

impl Instance {
    /// Writes the configuration, starts the process and waits until its endpoint answers.
    pub(super) fn start(folder: &Path, parts: Parts, catalog: Option<SocketAddr>) -> Result<Self> {
        if parts.queue {
            fs::create_dir(folder.join("fetchers"))?;
        }
        let console = free_address()?;
        fs::write(folder.join("demo.toml"), configuration(console, parts, catalog))?;
        let instance = Self {
            folder: folder.to_owned(),
            console,
            process: Mutex::default(),
            restarts: AtomicU64::new(0),
        };
        *instance.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(instance.spawn()?);
        let deadline = Instant::now() + START_MAX;
        while instance.get("/v1/tree").is_err() {
            if Instant::now() > deadline || instance.has_ended() {
                bail!(
                    "the instance does not start:\n{}",
                    fs::read_to_string(folder.join("log")).unwrap_or_default()
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(instance)
    }

    fn spawn(&self) -> Result<Child> {
        let log = File::options().create(true).append(true).open(self.folder.join("log"))?;
        Command::new(std::env::current_exe()?)
            .args(["run", "--config", "demo.toml"])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C ends the demo first, which drains the instance.
            .process_group(0)
            .spawn()
            .context("cannot start the instance")
    }

    fn has_ended(&self) -> bool {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.as_mut().is_none_or(|process| !matches!(process.try_wait(), Ok(None)))
    }

    /// Starts the process again if it has ended, as a service manager does.
    pub(super) fn keep_running(&self) {
        if self.has_ended()
            && let Ok(process) = self.spawn()
        {
            self.restarts.fetch_add(1, Relaxed);
            *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
        }
    }

    pub(super) fn console(&self) -> String {
        format!("http://{}/", self.console)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("admin.sock")
    }

    fn ask(&self, route: &str, body: Option<&Value>) -> Result<Value> {
        let client = Client::new(Address::Unix(self.socket()), None, true);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer = match body {
            Some(body) => runtime.block_on(client.post(route, body)),
            None => runtime.block_on(client.get(route)),
        };
        Ok(answer?)
    }

    pub(super) fn get(&self, route: &str) -> Result<Value> {
        self.ask(route, None)
    }

    pub(super) fn post(&self, route: &str, body: &Value) -> Result<Value> {
        self.ask(route, Some(body))
    }

    /// Runs a command of this program against the instance and returns its output.
    pub(super) fn command(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(std::env::current_exe()?)
            .args(arguments)
            .arg("--socket")
            .arg(self.socket())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            bail!("{}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Counts the rows in the store, once the children that answer run again.
    pub(super) fn stored_rows(&self) -> Result<u64> {
        let deadline = Instant::now() + START_MAX;
        let counts = loop {
            match self.command(&["provenance", "stats", "--json"]) {
                Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(100)),
                counts => break counts?,
            }
        };
        let counts: Value = serde_json::from_str(&counts)?;
        let counts = counts.as_object().context("provenance stats is no object")?;
        Ok(counts.values().filter_map(Value::as_u64).sum())
    }

    /// Ends the process by SIGTERM and returns the number of its restarts.
    pub(super) fn stop(&self) -> Result<u64> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut process) = process.take() {
            Command::new("kill").arg(process.id().to_string()).status()?;
            let deadline = Instant::now() + STOP_MAX;
            while process.try_wait()?.is_none() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(20));
            }
            process.kill()?;
        }
        Ok(self.restarts.load(Relaxed))
    }
}

/// An instance outlives no demo, also not one that ends by an error.
impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(process) = self.process.get_mut().unwrap_or_else(PoisonError::into_inner) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind(CONSOLE).or_else(|_| TcpListener::bind("127.0.0.1:0"));
    Ok(listener.context("no address is free")?.local_addr()?)
}

const QUEUE: &str = r#"[queue]
database = "queue.db"
input_dir = "fetchers"
socket = "worker.sock"
hold_secs = 3
redeliver_after_lease = true
"#;
const PROVENANCE: &str = r#"[provenance]
dead_letters = "dead-letters.db"
sqlite.path = "provenance.db"
"#;

/// A row that nobody settles is claimed again after the lease, before the demo would count it as lost.
const CATALOG: &str = r#"[[catalog]]
name = "demo"
amqp = ""
poll_without_notices_secs = 1
[[catalog.rule]]
name = "work"
table = "Work"
filter = "state=new"
concurrency = 32
handler = { kind = "queue", attr_path = "$row.id" }
claim.set = { state = "claimed", claimed_by = "$token", lease_until = "$now+10s" }
done = { state = "done", lease_until = "$null" }
fail = { state = "new", claimed_by = "$null", lease_until = "$null" }
"#;

/// Relative paths are below the demo's directory, where the process runs.
fn configuration(console: SocketAddr, parts: Parts, catalog: Option<SocketAddr>) -> String {
    let queue = if parts.queue { QUEUE } else { "" };
    let provenance = if parts.provenance { PROVENANCE } else { "" };
    let catalog = catalog
        .map(|at| CATALOG.replacen("\n", &format!("\nbase = \"http://{at}{}\"\n", table::CATALOG), 1))
        .unwrap_or_default();
    format!(
        "{queue}{provenance}{catalog}[admin]\nlisten = \"{console}\"\nunix_socket = \"admin.sock\"\nchaos = true\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Sources};

    #[test]
    fn the_demo_configures_what_the_build_has() {
        let all = [(true, false, false), (false, true, false), (true, true, false), (true, true, true)];
        let built = all.into_iter().filter(|(queue, provenance, catalog)| {
            (Parts::BUILT.queue || !queue)
                && (Parts::BUILT.provenance || !provenance)
                && (Parts::BUILT.catalog || !catalog)
        });
        for (queue, provenance, catalog) in built {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("demo.toml");
            let parts = Parts { queue, provenance, catalog };
            let [console, server] = ["127.0.0.1:7117", "127.0.0.1:7118"].map(|at| at.parse().unwrap());
            fs::write(&file, configuration(console, parts, catalog.then_some(server))).unwrap();
            let config = Config::load(&Sources { files: vec![file], ..Sources::default() }).unwrap();
            let names: Vec<_> = config.sections.iter().map(|section| section.name()).collect();
            let expected = [(queue, "queue"), (provenance, "provenance"), (catalog, "catalog")];
            assert_eq!(
                names,
                expected.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect::<Vec<_>>()
            );
        }
    }
}
