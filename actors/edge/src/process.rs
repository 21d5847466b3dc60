//! Programs: a process that leads its own process group. Nothing of the group outlives this value, and no
//! zombie stays.

use std::{io, os::fd::OwnedFd, process::ExitStatus};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::{
    io::{Interest, unix::AsyncFd},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

/// Variables that every program inherits; `LC_*`, too. All others may hold secrets.
const INHERITED: [&str; 10] =
    ["HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "TZDIR", "USER"];

/// Returns true for a variable that programs inherit from this process.
pub fn is_inherited(variable: &str) -> bool {
    INHERITED.contains(&variable) || variable.starts_with("LC_")
}

/// A process. Dropped before [`Process::reap`], it is killed with its group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Pid,
    /// Reports the leader's end without reaping it, so that its process id stays reserved and the
    /// group can be signalled.
    leader: AsyncFd<OwnedFd>,
    reaped: bool,
}

/// Parent's ends of the pipes.
#[derive(Debug)]
pub struct Pipes {
    /// Standard input.
    pub stdin: Option<ChildStdin>,
    /// Standard output.
    pub stdout: Option<ChildStdout>,
    /// Standard error.
    pub stderr: Option<ChildStderr>,
}

impl Process {
    /// Starts `command` as the leader of a new group.
    ///
    /// # Errors
    /// The process cannot be started or watched; nothing runs then.
    pub fn start(mut command: Command) -> io::Result<(Self, Pipes)> {
        // Covers failures below.
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = pid.ok_or_else(|| io::Error::other("it has no number"))?;
        let leader = pidfd_open(group, PidfdFlags::NONBLOCK)?;
        let leader = watched(leader)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok((Self { child, group, leader, reaped: false }, Pipes { stdin, stdout, stderr }))
    }

    /// Waits until the leader has ended. Cancel safe.
    ///
    /// # Errors
    /// The runtime ends.
    pub async fn ended(&self) -> io::Result<()> {
        // A pidfd stays readable, so the readiness is not cleared.
        self.leader.readable().await.map(drop)
    }

    /// Sends SIGTERM to the group.
    pub fn terminate(&self) {
        if kill_process_group(self.group, Signal::TERM).is_err() {
            // The leader may have left its group. It is signalled once: some programs take a second
            // SIGTERM as a demand to end at once.
            let _ = pidfd_send_signal(self.leader.get_ref(), Signal::TERM);
        }
    }

    /// Kills what is left of the group and returns the leader's exit status.
    ///
    /// # Errors
    /// The system does not report the status.
    pub async fn reap(mut self) -> io::Result<ExitStatus> {
        self.kill();
        let status = self.child.wait().await;
        // The process id may be reused from here on.
        self.reaped = true;
        status
    }

    /// Sends SIGKILL to the group, and to a leader that left it.
    fn kill(&self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = pidfd_send_signal(self.leader.get_ref(), Signal::KILL);
    }
}

#[expect(
    deprecated,
    reason = "an OwnedFd keeps what its successor, which is unsafe, asks the caller to keep"
)]
fn watched(leader: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(leader, Interest::READABLE)
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            // tokio reaps the leader later.
            self.kill();
        }
    }
}
