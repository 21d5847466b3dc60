//! A private PostgreSQL server on a loopback port, in a temporary directory, with the default durability.

mod programs;
mod standby;

use std::{
    fmt::Write as _,
    fs::{self, File, Permissions},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::OnceLock,
};

use rustix::process::{Pid, Signal, kill_process};

use self::programs::server_programs;
pub(crate) use self::programs::{other_user, programs};
use crate::{child_logs, free_port, python::peers, suite, wait_for};

/// Script that ends the server and removes its directory when its standard input closes, even if the test is
/// killed.
const WATCH: &str = r#"
cat >/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null; then
  for _ in $(seq 200); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
  kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1"
"#;

/// User that the server asks for a password. A test creates it.
pub const PASSWORD_USER: &str = "secured";

/// Server: running, stopped or killed. It is removed when dropped.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    directory: PathBuf,
    port: u16,
    server: Option<Child>,
    watch: Child,
    watched: Option<ChildStdin>,
}

impl Postgres {
    /// Creates a cluster and starts its server.
    ///
    /// # Panics
    /// If PostgreSQL is not installed or does not start.
    pub fn start() -> Self {
        let mut made = Self::prepare();
        made.make_cluster();
        made.start_again();
        made
    }

    /// As [`Postgres::start`], with a certificate for `localhost`, signed by
    /// [`Faktory::ca_file`](crate::Faktory::ca_file).
    ///
    /// # Panics
    /// As [`Postgres::start`].
    pub fn start_tls() -> Self {
        let mut made = Self::prepare();
        made.make_cluster();
        made.copy_certificate();
        made.start_again();
        made
    }

    /// Makes the directory of a server.
    fn prepare() -> Self {
        let programs = programs();
        // The watch script removes it after the end of the server.
        let directory = tempfile::Builder::new().prefix("postgres-").tempdir().expect("a directory").keep();
        let mut watch = Command::new("sh")
            .args(["-c", WATCH, "watch"])
            .arg(&directory)
            .stdin(Stdio::piped())
            // Ctrl-C must not reach it.
            .process_group(0)
            .spawn()
            .expect("sh runs");
        child_logs::note(&directory.join("log"));
        let watched = watch.stdin.take();
        let made = Self { programs, directory, port: 0, server: None, watch, watched };
        if let Some((uid, gid)) = other_user() {
            chown(&made.directory, Some(uid), Some(gid)).expect("give the directory to postgres");
        }
        made
    }

    /// Server shared by the tests of this process that do not stop it. Each test creates its own databases.
    ///
    /// # Panics
    /// As [`Postgres::start`].
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Creates an empty database and returns its address.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn create_database(&self, name: &str) -> String {
        let mut command = Command::new(self.programs.join("createdb"));
        command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string(), name]);
        run(&mut command);
        format!("postgresql://postgres@127.0.0.1:{}/{name}", self.port)
    }

    /// Runs an SQL script with psql and returns its unaligned output.
    ///
    /// # Panics
    /// If a statement fails.
    pub fn script(&self, dsn: &str, sql: &str) -> String {
        psql(dsn, sql).unwrap_or_else(|said| panic!("{sql}: {said}"))
    }

    /// Stops the server (fast shutdown): clients are disconnected, nothing is lost.
    ///
    /// # Panics
    /// If it is not running.
    pub fn stop(&mut self) {
        self.end(Signal::INT);
    }

    /// Kills all processes of the server.
    ///
    /// # Panics
    /// If it is not running.
    pub fn kill_nine(&mut self) {
        let server = Pid::from_child(self.server.as_ref().expect("a running server"));
        // A suspended postmaster starts no process; unkilled backends would finish their statements.
        kill_process(server, Signal::STOP).expect("stop the server");
        for process in children(server) {
            // It may have ended already.
            let _ = kill_process(process, Signal::KILL);
        }
        self.end(Signal::KILL);
    }

    /// Suspends all processes of the server with SIGSTOP: connections stay open, and nothing is answered
    /// until [`Postgres::thaw`].
    ///
    /// # Panics
    /// If it is not running.
    pub fn freeze(&self) {
        self.signal_all(Signal::STOP);
    }

    /// Resumes all processes of the server.
    ///
    /// # Panics
    /// If it is not running.
    pub fn thaw(&self) {
        self.signal_all(Signal::CONT);
    }

    /// Signals the postmaster, which starts no process while it is suspended, and then its children.
    fn signal_all(&self, signal: Signal) {
        let server = Pid::from_child(self.server.as_ref().expect("a running server"));
        kill_process(server, signal).expect("the server is ours");
        for process in children(server) {
            // It may have ended already.
            let _ = kill_process(process, signal);
        }
    }

    /// Starts a stopped or killed server at the same address.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&mut self) {
        assert!(self.server.is_none(), "the server is running");
        // After a kill the shared memory stays in use for a moment, and another process may take the port.
        wait_for("a PostgreSQL server", || {
            if self.port == 0 {
                self.port = free_port();
            }
            if self.server.is_none() {
                self.server = Some(self.spawn());
            }
            if self.answers() {
                return Some(());
            }
            let server = self.server.as_mut()?;
            if server.try_wait().expect("its state").is_some() {
                self.server = None;
                if self.log().contains("could not bind") && !self.directory.join("used").exists() {
                    self.port = 0;
                }
            }
            None
        });
        fs::write(self.directory.join("used"), "").expect("note that the port is known");
    }

    /// Creates a tablespace in a directory, which must be empty.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn create_tablespace(&self, name: &str, directory: &Path) {
        if let Some((uid, gid)) = other_user() {
            chown(directory, Some(uid), Some(gid)).expect("give the directory to postgres");
        }
        let sql = format!("CREATE TABLESPACE {name} LOCATION '{}'", directory.display());
        self.script(&self.maintenance_dsn(), &sql);
    }

    fn maintenance_dsn(&self) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Changes a setting of the running server; None resets it.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn set(&self, name: &str, value: Option<&str>) {
        let dsn = self.maintenance_dsn();
        match value {
            Some(value) => self.script(&dsn, &format!("ALTER SYSTEM SET {name} = '{value}'")),
            None => self.script(&dsn, &format!("ALTER SYSTEM RESET {name}")),
        };
        self.script(&dsn, "SELECT pg_reload_conf()");
    }

    /// TCP port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Log of the server.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    fn make_cluster(&self) {
        let mut initdb = self.as_owner("initdb");
        initdb.args(["-A", "trust", "-E", "UTF8", "--no-locale", "-N", "-U", "postgres"]);
        run(&mut initdb);
        // Only this user has to give a password.
        let file = self.directory.join("data/pg_hba.conf");
        let rules = fs::read_to_string(&file).expect("the rules of access");
        fs::write(&file, format!("host all {PASSWORD_USER} all scram-sha-256\n{rules}")).expect("write them");
    }

    /// Configures TLS. Certificates and their key are copied, since the server demands that the key is its
    /// own.
    fn copy_certificate(&self) {
        let file = self.directory.join("data/postgresql.conf");
        let settings = "ssl = on\nssl_cert_file = '../server.pem'\nssl_key_file = '../server.key'\n";
        let mut text = fs::read_to_string(&file).expect("the settings");
        text.push_str(settings);
        if let Some(version) = suite::tls_version() {
            for limit in ["min", "max"] {
                writeln!(text, "ssl_{limit}_protocol_version = 'TLSv{version}'").expect("a string");
            }
        }
        fs::write(&file, text).expect("write them");
        for name in ["server.pem", "server.key", "self-signed.pem", "version-1.pem", "common-name.pem"] {
            let copy = self.directory.join(name);
            fs::copy(peers().join("tls").join(name), &copy).expect("copy the certificate");
            fs::set_permissions(&copy, Permissions::from_mode(0o600)).expect("protect the key");
            if let Some((uid, gid)) = other_user() {
                chown(&copy, Some(uid), Some(gid)).expect("give the key to postgres");
            }
        }
    }

    fn spawn(&self) -> Child {
        let log = File::options().create(true).append(true).open(self.directory.join("log")).expect("a log");
        let mut command = self.as_owner("postgres");
        command.args(["-p", &self.port.to_string()]);
        // The default since version 14.
        command.args(["-c", "password_encryption=scram-sha-256"]);
        for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=256MB"] {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log).process_group(0);
        command.spawn().expect("postgres runs")
    }

    fn answers(&self) -> bool {
        let mut command = Command::new(self.programs.join("pg_isready"));
        command.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        command.status().expect("pg_isready runs").success()
    }

    /// Command of the cluster, run as the user `postgres` because the server refuses root.
    fn as_owner(&self, program: &str) -> Command {
        let program = server_programs().join(program);
        let mut command = match other_user() {
            Some(user) => suite::command_as(user, program),
            None => suite::command(program),
        };
        command.arg("-D").arg(self.directory.join("data")).current_dir(&self.directory).env("LC_ALL", "C");
        command
    }

    fn end(&mut self, signal: Signal) {
        let mut server = self.server.take().expect("a running server");
        kill_process(Pid::from_child(&server), signal).expect("signal the server");
        server.wait().expect("its end");
    }
}

/// As [`Postgres::script`], for a server that may be down.
///
/// # Errors
/// The error output of psql.
pub fn psql(dsn: &str, sql: &str) -> Result<String, String> {
    psql_with(dsn, sql, &[])
}

/// As [`psql`], with variables in its environment. It never asks for a password.
///
/// # Errors
/// The error output of psql.
pub fn psql_with(dsn: &str, sql: &str, variables: &[(&str, String)]) -> Result<String, String> {
    let mut command = Command::new(programs().join("psql"));
    command.args(["-X", "-w", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-c", sql]);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let output = command.output().expect("psql runs");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // The process may have ended already, or be suspended.
            let _ = kill_process(Pid::from_child(&server), Signal::QUIT);
            let _ = kill_process(Pid::from_child(&server), Signal::CONT);
            let _ = server.wait();
        }
        drop(self.watched.take());
        let _ = self.watch.wait();
    }
}

/// Child processes of `parent`.
fn children(parent: Pid) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").expect("the processes").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    let parent = parent.as_raw_nonzero().to_string();
    pids.filter(|pid| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        // The name may contain anything; state and parent follow its closing parenthesis.
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&parent)
    })
    .collect()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
