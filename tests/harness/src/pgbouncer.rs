//! A private PgBouncer before a [`Postgres`] server, in a temporary directory.

use std::{
    fs::{self, File},
    os::unix::{fs::chown, process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{
    Postgres, child_logs, free_port,
    postgres::{other_user, psql},
    wait_for,
};

const PROGRAM: &str = "/usr/sbin/pgbouncer";
/// Script that ends the pooler when its standard input closes, even if the test is killed.
const WATCH: &str = r#""$@" </dev/null & cat >/dev/null; kill -KILL $!"#;

/// Running pooler. It ends when it is dropped.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    watch: Child,
    _directory: tempfile::TempDir,
}

impl PgBouncer {
    /// Starts a pooler of this `pool_mode`.
    ///
    /// # Panics
    /// If it is not installed, or does not start.
    pub fn start(server: &Postgres, pool_mode: &str) -> Self {
        assert!(Path::new(PROGRAM).exists(), "{PROGRAM} is missing: install pgbouncer, as tests/run does");
        let directory = tempfile::Builder::new().prefix("pgbouncer-").tempdir().expect("a directory");
        let (path, port) = (directory.path(), free_port());
        let (settings, users) = (path.join("pgbouncer.ini"), path.join("users"));
        fs::write(&users, "\"postgres\" \"\"\n").expect("write the users");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\npool_mode = {pool_mode}\n",
            server.port(),
            users.display()
        );
        fs::write(&settings, text).expect("write the settings");
        let log = File::create(path.join("log")).expect("a log");
        child_logs::note(&path.join("log"));
        let mut command = Command::new("sh");
        command.args(["-c", WATCH, "watch", PROGRAM]).arg(&settings);
        command.stdin(Stdio::piped()).stdout(log.try_clone().expect("the log")).stderr(log).process_group(0);
        if let Some((uid, gid)) = other_user() {
            for one in [path, &settings, &users] {
                chown(one, Some(uid), Some(gid)).expect("give it to postgres");
            }
            command.uid(uid).gid(gid);
        }
        let pooler = Self { port, watch: command.spawn().expect("sh runs"), _directory: directory };
        wait_for("PgBouncer", || psql(&pooler.address("postgres"), "SELECT 1").ok());
        pooler
    }

    /// Address of a database behind the pooler.
    pub fn address(&self, database: &str) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        drop(self.watch.stdin.take());
        let _ = self.watch.wait();
    }
}
