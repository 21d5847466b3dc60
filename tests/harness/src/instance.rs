//! A running process of the binary.

use std::{
    fs,
    process::{Child, Command, ExitStatus},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{TestEnv, wait_for};

/// Process of the binary. It is killed when dropped.
#[derive(Debug)]
pub struct Instance {
    child: Child,
}

impl Instance {
    /// Starts `command`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn spawn(mut command: Command) -> Self {
        Self { child: command.spawn().expect("start the binary") }
    }

    /// Waits until the worker socket accepts connections.
    ///
    /// # Panics
    /// If the socket does not accept connections in time, with the log.
    pub fn await_service(&self, site: &TestEnv) {
        wait_for(&format!("service on {}; log:\n{}", site.socket().display(), site.log()), || {
            crate::Worker::connect(&site.socket()).ok()
        });
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the process is ours");
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill_nine(mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("the process is ours");
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(&mut self) -> ExitStatus {
        wait_for("the process to end", || self.child.try_wait().expect("the process is ours"))
    }

    /// Exit status, or None while the process runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process is ours")
    }

    /// Resident memory now (`VmRSS`) or at its peak (`VmHWM`), bytes.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn memory(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the process runs");
        let line = status.lines().find(|line| line.starts_with(field)).expect("a known field");
        let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
        kib * 1024
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
