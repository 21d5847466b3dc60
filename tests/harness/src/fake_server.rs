//! Process of a fake server: a Python program that speaks the protocol of a server that cannot be installed.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait_for;

/// Running, suspended or ended process. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct FakeServer {
    /// Name of the real server.
    name: &'static str,
    child: Option<Child>,
}

impl FakeServer {
    /// Creates a server that is not started yet.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, child: None }
    }

    /// Starts the server and waits until it listens. It ends when its standard input closes, even if the test
    /// is killed.
    ///
    /// # Panics
    /// If it runs already, or does not start; its output is on standard error.
    pub(crate) fn start(&mut self, mut command: Command) {
        assert!(self.child.is_none(), "the fake {} is running", self.name);
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python starts");
        let mut line = String::new();
        let said = BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line);
        assert!(said.is_ok() && line.contains("listening"), "the fake {} does not start", self.name);
        self.child = Some(child);
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    /// If it is not running.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        self.child.take().expect("a running server").wait().expect("its end");
    }

    /// Sends SIGKILL and waits for the end.
    ///
    /// # Panics
    /// If it is not running.
    pub(crate) fn kill_nine(&mut self) {
        let mut child = self.child.take().expect("a running server");
        child.kill().expect("the server is ours");
        child.wait().expect("its end");
    }

    /// Suspends the process with SIGSTOP: connections stay open, and nothing is answered until
    /// [`FakeServer::thaw`].
    ///
    /// # Panics
    /// If it is not running.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        // SIGSTOP is asynchronous: a running thread may still answer.
        let threads = format!("/proc/{}/task", self.pid());
        wait_for("all threads of the server to stand still", || {
            let mut threads = std::fs::read_dir(&threads).ok()?;
            threads.all(|thread| thread.is_ok_and(|thread| is_stopped(&thread.path()))).then_some(())
        });
    }

    /// Resumes the process.
    ///
    /// # Panics
    /// If it is not running.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Process id.
    ///
    /// # Panics
    /// If it is not running.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("a running server").id()
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("a running server");
        kill_process(Pid::from_child(child), signal).expect("the server is ours");
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns true if the thread with this `/proc` folder is stopped (proc_pid_stat(5)).
fn is_stopped(thread: &Path) -> bool {
    let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
}
