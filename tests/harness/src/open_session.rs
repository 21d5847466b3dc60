//! A session of psql that keeps its transaction open.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

use crate::postgres::programs;

/// Session of psql that stays open, with its transaction, until it is dropped.
#[derive(Debug)]
pub struct OpenSession {
    program: Child,
    /// Process id at the server.
    pub pid: String,
}

impl OpenSession {
    /// Runs statements, each of which must succeed, in a session with this application name.
    ///
    /// # Panics
    /// If one of them fails.
    pub fn start(dsn: &str, application: &str, sql: &str) -> Self {
        let mut command = Command::new(programs().join("psql"));
        command.args(["-X", "-w", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", dsn]);
        command.env("PGAPPNAME", application).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().expect("psql runs");
        let input = program.stdin.as_mut().expect("its input");
        writeln!(input, "{sql};\nSELECT 'pid', pg_backend_pid();").expect("psql reads");
        let output = BufReader::new(program.stdout.take().expect("its output"));
        let mut lines = output.lines().map_while(Result::ok);
        let pid = lines.find_map(|line| line.strip_prefix("pid|").map(str::to_owned));
        Self { program, pid: pid.unwrap_or_else(|| panic!("{sql} failed")) }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        drop(self.program.stdin.take());
        let _ = self.program.wait();
    }
}
