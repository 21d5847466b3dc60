//! Programs: a process that leads its own process group. Nothing of the group outlives this value, and no
//! zombie stays.

mod environment;

use std::{io, os::fd::OwnedFd, pin::pin, process::ExitStatus, time::Duration};

use futures_util::future::{Either, join3, select};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::{
    io::{AsyncWriteExt, Interest, unix::AsyncFd},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

pub use self::environment::{Environment, PASS_ALL};
use crate::capture::read;

/// Time for which pipes are read after the end of a program: a process that left the group may hold them
/// open.
const LINGER: Duration = Duration::from_secs(1);

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

/// Limits of a program's run.
#[derive(Debug, Clone, Copy)]
pub struct RunLimits {
    /// Maximum run time; then the group gets SIGTERM.
    pub timeout: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
}

/// End of a program.
#[derive(Debug, Clone, Copy)]
pub struct Exit {
    /// Exit status of the leader.
    pub status: ExitStatus,
    /// False if the program was terminated at its time-out.
    pub in_time: bool,
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

    /// Writes `input` to the program, gives its outputs in pieces to `output` and `errors`, and waits for
    /// its end. The program may ignore its input.
    ///
    /// # Errors
    /// The system does not report the status.
    pub async fn run(
        self,
        pipes: Pipes,
        input: &[u8],
        limits: RunLimits,
        output: impl FnMut(&[u8]),
        errors: impl FnMut(&[u8]),
    ) -> io::Result<Exit> {
        let communicate = pin!(pipes.communicate(input, output, errors));
        let ended = pin!(self.end_by(limits));
        match select(ended, communicate).await {
            Either::Left((ended, communicate)) => {
                // Output that is not read by then is ignored.
                let _ = timeout(LINGER, communicate).await;
                ended
            }
            Either::Right(((), ended)) => ended.await,
        }
    }

    /// Waits for the end, and terminates the program at its time-out.
    async fn end_by(self, limits: RunLimits) -> io::Result<Exit> {
        let in_time = timeout(limits.timeout, self.ended()).await.is_ok();
        if !in_time {
            self.terminate();
            // `reap` kills what is left after the grace period.
            let _ = timeout(limits.grace, self.ended()).await;
        }
        self.reap().await.map(|status| Exit { status, in_time })
    }

    /// Sends SIGKILL to the group, and to a leader that left it.
    fn kill(&self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = pidfd_send_signal(self.leader.get_ref(), Signal::KILL);
    }
}

impl Pipes {
    /// Writes `input` and reads both outputs until they are closed.
    async fn communicate(self, input: &[u8], output: impl FnMut(&[u8]), errors: impl FnMut(&[u8])) {
        let Self { stdin, stdout, stderr } = self;
        let feed = async {
            if let Some(mut stdin) = stdin {
                // If the program ended, the pipe is broken.
                let _ = stdin.write_all(input).await;
            }
        };
        let read_output = async {
            if let Some(stdout) = stdout {
                read(stdout, output).await;
            }
        };
        let read_errors = async {
            if let Some(stderr) = stderr {
                read(stderr, errors).await;
            }
        };
        join3(feed, read_output, read_errors).await;
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
