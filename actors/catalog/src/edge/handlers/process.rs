//! A process that leads a group of its own. Nothing of the group outlives this value, and no zombie stays.

use std::{io, os::fd::OwnedFd, process::ExitStatus};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::{
    io::{Interest, unix::AsyncFd},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

/// A process. Dropped before [`Process::reap`], it is killed with its whole group.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    group: Pid,
    /// Tells of the leader's end without reaping it: until then its number is nobody else's, and the group can be signalled.
    leader: AsyncFd<OwnedFd>,
    reaped: bool,
}

/// The ends of its pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
}

impl Process {
    /// Starts `command`, as the leader of a group.
    ///
    /// # Errors
    /// It cannot be started, or not be watched; nothing runs then.
    pub(super) fn start(mut command: Command) -> io::Result<(Self, Pipes)> {
        // For the case that it cannot be watched.
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = pid.ok_or_else(|| io::Error::other("it has no number"))?;
        let leader = pidfd_open(group, PidfdFlags::NONBLOCK)?;
        let leader = watched(leader)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok((Self { child, group, leader, reaped: false }, Pipes { stdin, stdout, stderr }))
    }

    /// Waits until the leader has ended. May be dropped and called again.
    ///
    /// # Errors
    /// The runtime ends.
    pub(super) async fn ended(&self) -> io::Result<()> {
        // It stays readable for ever; the readiness is not cleared.
        self.leader.readable().await.map(drop)
    }

    /// SIGTERM for the group.
    pub(super) fn ask_to_end(&self) {
        if kill_process_group(self.group, Signal::TERM).is_err() {
            // A leader may have left its group, which is empty then. It gets the signal once: some take a second one for haste.
            let _ = pidfd_send_signal(self.leader.get_ref(), Signal::TERM);
        }
    }

    /// Ends whatever is left of the group, and gives how the leader ended.
    ///
    /// # Errors
    /// The system does not tell.
    pub(super) async fn reap(mut self) -> io::Result<ExitStatus> {
        self.kill();
        let status = self.child.wait().await;
        // From here on its number may be another's.
        self.reaped = true;
        status
    }

    /// SIGKILL for the group, and for the leader if it has left it. Whoever has ended already does not mind.
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
            // What tokio keeps of the leader is reaped when its end is told.
            self.kill();
        }
    }
}
