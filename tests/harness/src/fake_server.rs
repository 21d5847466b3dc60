//! The process of a stand-in: a server in Python that speaks the protocol of one that cannot be installed.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait_for;

/// A running, frozen or ended process. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct FakeServer {
    /// Whose place it takes.
    name: &'static str,
    child: Option<Child>,
}

impl FakeServer {
    /// One that does not run yet.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, child: None }
    }

    /// Starts it and waits until it listens. It ends with its standard input: also when the test's process is killed.
    ///
    /// # Panics
    /// If it runs already, or does not start; its own words are on standard error.
    pub(crate) fn start(&mut self, mut command: Command) {
        assert!(self.child.is_none(), "the stand-in for {} is running", self.name);
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python starts");
        let mut line = String::new();
        let said = BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line);
        assert!(said.is_ok() && line.contains("listening"), "the stand-in for {} does not start", self.name);
        self.child = Some(child);
    }

    /// Asks it to end, and waits for that.
    ///
    /// # Panics
    /// If it is not running.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        self.child.take().expect("a running server").wait().expect("its end");
    }

    /// Ends it at once.
    ///
    /// # Panics
    /// If it is not running.
    pub(crate) fn kill_nine(&mut self) {
        let mut child = self.child.take().expect("a running server");
        child.kill().expect("the server is ours");
        child.wait().expect("its end");
    }

    /// Stops it where it is: connections stay, and nothing is answered any more until [`FakeServer::thaw`], or it is killed.
    ///
    /// # Panics
    /// If it is not running.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        // The signal is on its way when it has been sent: a thread that runs may still answer.
        let threads = format!("/proc/{}/task", self.child.as_ref().expect("a running server").id());
        wait_for("all threads of the server to stand still", || {
            let mut threads = std::fs::read_dir(&threads).ok()?;
            threads.all(|thread| thread.is_ok_and(|thread| is_stopped(&thread.path()))).then_some(())
        });
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// If it is not running.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
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

/// Tells whether a thread, by its folder in `/proc`, is stopped (proc_pid_stat(5): the state follows the name in parentheses).
fn is_stopped(thread: &Path) -> bool {
    let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
}
