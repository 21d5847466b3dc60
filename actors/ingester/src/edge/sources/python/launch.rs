//! Start of the Python process.

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as BlockingStream},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Arc,
};

use orchestrator_supervise::DurableView;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde_json::json;
use tokio::{
    io::{Interest, unix::AsyncFd},
    net::UnixStream,
    process::{Child, ChildStderr, Command},
};

use crate::{class_path::ClassPath, mapping::Mappings};

/// Program that the process runs; it imports the class from the site's environment.
const SHIM: &str = include_str!("shim.py");
/// Reads the program from standard input, a socket, and runs it.
const BOOTSTRAP: &str = "import socket, sys; control = socket.socket(fileno=0); \
    exec(compile(control.recv(int(sys.argv[1]), socket.MSG_WAITALL), 'orchestrator_ingester.py', 'exec'))";

/// Settings of the process of one class.
pub(crate) struct Launch {
    /// Interpreter; a name without a slash is looked up in `PATH`.
    pub(crate) python: PathBuf,
    /// The class.
    pub(crate) class: ClassPath,
    /// Streams of the class, with their positions among all streams.
    pub(crate) streams: Vec<(usize, Arc<str>)>,
    /// Name of the ingester.
    pub(crate) name: String,
    /// Address that workers dial.
    pub(crate) url: String,
    /// URL of Redis, which the class may use.
    pub(crate) redis_url: String,
    /// Address of the source.
    pub(crate) upstream_url: Option<String>,
    /// The current mapping.
    pub(crate) mappings: DurableView<Mappings>,
}

/// A running process. Dropped, it is killed with its group.
pub(super) struct Running {
    child: Child,
    group: Pid,
    /// Reports the end without reaping the process, so that its id is not reused meanwhile.
    leader: AsyncFd<OwnedFd>,
    /// Socket that is the standard input of the process.
    pub(super) control: UnixStream,
    pub(super) stderr: Option<ChildStderr>,
}

impl Launch {
    /// Starts the process.
    ///
    /// # Errors
    /// It cannot be started; nothing runs then.
    pub(super) fn start(&self) -> io::Result<Running> {
        let (ours, theirs) = BlockingStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(&self.python);
        command.args(["-c", BOOTSTRAP]).arg(SHIM.len().to_string()).arg(self.class.to_string());
        // The name that takes precedence in dranspose.
        command.env("SERVICE_REDIS_DSN", &self.redis_url).env("PYTHONUNBUFFERED", "1");
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = pid.ok_or_else(|| io::Error::other("the process has no id"))?;
        let leader = watched(pidfd_open(group, PidfdFlags::NONBLOCK)?)?;
        let stderr = child.stderr.take();
        Ok(Running { child, group, leader, control: UnixStream::from_std(ours)?, stderr })
    }

    /// First bytes on standard input: the program, and its settings as a line of JSON.
    pub(super) fn preamble(&self) -> Vec<u8> {
        let streams: serde_json::Map<_, _> =
            self.streams.iter().map(|(position, name)| (name.to_string(), json!(position))).collect();
        let settings = json!({
            "class": self.class.to_string(), "streams": streams, "name": self.name, "url": self.url,
            "upstream_url": self.upstream_url, "parent": std::process::id(),
        });
        format!("{SHIM}{settings}\n").into_bytes()
    }
}

impl Running {
    /// Waits until the process has ended. Cancel-safe.
    pub(super) async fn ended(&self) {
        // A pidfd stays readable. It fails only at the end of the runtime.
        let _ = self.leader.readable().await.map(drop);
    }

    /// Kills what is left of the process's group and returns the exit status.
    ///
    /// # Errors
    /// The system does not report the status.
    pub(super) async fn reap(mut self) -> io::Result<ExitStatus> {
        self.kill();
        self.child.wait().await
    }

    fn kill(&self) {
        // An ended process that is not reaped keeps its id reserved.
        if self.child.id().is_some() {
            let _ = kill_process_group(self.group, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

#[expect(
    deprecated,
    reason = "an OwnedFd keeps what its successor, which is unsafe, asks the caller to keep"
)]
fn watched(leader: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(leader, Interest::READABLE)
}
