//! A running process of the binary.

use std::{
    fs,
    process::{Child, Command, ExitStatus},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{TestEnv, wait_for};

/// The process; killed when dropped.
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
    /// If the process ends or does not get there, with its log.
    pub fn await_service(&self, site: &TestEnv) {
        wait_for(&format!("service on {}; log:\n{}", site.socket().display(), site.log()), || {
            crate::Worker::connect(&site.socket()).ok()
        });
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the process is ours");
    }

    /// SIGKILL, and waits for the end.
    pub fn kill_nine(mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("the process is ours");
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(&mut self) -> ExitStatus {
        wait_for("the process to end", || self.child.try_wait().expect("the process is ours"))
    }

    /// Has it ended, and how?
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process is ours")
    }

    /// Bytes of memory it holds now (`VmRSS`), or held at most (`VmHWM`).
    ///
    /// # Panics
    /// If it has ended.
    pub fn memory(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the process runs");
        let line = status.lines().find(|line| line.starts_with(field)).expect("a known field");
        let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
        kib * 1024
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
