//! The watch on the input directory, and its state while the directory is missing (CONTRACT QF07,
//! QR10 to QR15).
//!
//! After a watch is set, and after an overflow of the kernel's queue, a rescan is requested, so
//! that no change is missed. Events carry file names, so files need no watches of their own. While
//! the directory is missing the link is down, and nothing is created, deleted or rescanned. While
//! the kernel refuses a watch by a limit, the directory is listed at an interval instead.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::ReadyChunks};
use inotify::{EventMask, EventOwned, EventStream, Inotify, WatchMask};
use orchestrator_edge::{LinkState, RetryPolicy, file_failure, shell_word};
use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_queue_rules::tracking::Change;
use orchestrator_supervise::{ChildState, Factory, Mailbox, StartCx};
use rustix::io::Errno;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::error::EdgeError;
use crate::{
    fetcher_watcher::FetcherWatcher,
    messages::{DirectoryEvent, DirectoryNotice},
};

/// Tries to watch a missing directory. They stay frequent, because its files wait meanwhile and a try costs
/// one system call.
const RETRY: RetryPolicy = RetryPolicy::exception(Duration::from_millis(250), Duration::from_millis(250));

/// Interval of checks that the path still refers to the watched directory.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of listings of a directory that cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Size of the event buffer, in bytes; sufficient for some hundred events.
const BUFFER_BYTES: usize = 16 * 1024;

/// Maximum number of events in one notice.
const EVENTS_MAX: usize = 256;

/// Creates the input directory and its parents if they are missing (CONTRACT QD05). Called at the
/// start of the process only; a directory that is deleted later is waited for.
pub(crate) fn create_input_dir(input_dir: &Path) -> Result<(), EdgeError> {
    fs::create_dir_all(input_dir).map_err(EdgeError::refused("create input directory", input_dir))
}

/// The child sends nothing while it is paused.
pub(crate) fn factory(input_dir: PathBuf, watcher: Mailbox<FetcherWatcher>) -> Factory {
    Factory::task(move |cx: StartCx| {
        let edge = Edge {
            link: LinkState::new(&cx, "inotify", input_dir.display().to_string(), RETRY),
            input_dir: input_dir.clone(),
            watcher: watcher.clone(),
            child: cx.child.clone(),
        };
        async move {
            tokio::select! {
                biased;
                () = cx.stop.cancelled() => {}
                () = edge.run() => {}
            }
            Ok(())
        }
    })
}

struct Edge {
    input_dir: PathBuf,
    watcher: Mailbox<FetcherWatcher>,
    link: LinkState,
    child: Arc<ChildState>,
}

impl Edge {
    /// Watches the directory; returns if a stop ends the delay before a try.
    async fn run(self) {
        let mut polled: Option<Instant> = None;
        loop {
            let failure = match Watch::set(&self.input_dir) {
                Ok(watch) => {
                    self.send(DirectoryNotice::Rescan).await;
                    self.link.succeeded();
                    self.follow(watch).await
                }
                Err(error) => {
                    if limit(&error).is_some() && polled.is_none_or(|at| at.elapsed() >= POLL_INTERVAL) {
                        polled = Some(Instant::now());
                        self.send(DirectoryNotice::Rescan).await;
                    }
                    self.failure(&error)
                }
            };
            if !self.link.retry(failure).await {
                return;
            }
        }
    }

    /// Sends events until the directory is gone. Returns the reason of the end.
    async fn follow(&self, mut watch: Watch) -> LinkFailure {
        let mut check = interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let read = tokio::select! {
                biased;
                read = watch.read() => read,
                _ = check.tick() => match watch.is_current(&self.input_dir) {
                    true => continue,
                    false => return self.failure(&ErrorKind::NotFound.into()),
                },
            };
            match read {
                Ok(batch) => {
                    if !batch.events.is_empty() {
                        self.send(DirectoryNotice::Changed(batch.events)).await;
                    }
                    if batch.gone {
                        return self.failure(&ErrorKind::NotFound.into());
                    }
                    if batch.lost {
                        tracing::warn!("directory events were lost: listing the input directory again");
                        self.send(DirectoryNotice::Rescan).await;
                    }
                }
                Err(error) => return self.failure(&error),
            }
        }
    }

    /// Reason why the directory is not watched, and what helps.
    fn failure(&self, error: &io::Error) -> LinkFailure {
        let directory = shell_word(&self.input_dir.to_string_lossy()).into_owned();
        let failure = |reason: String| file_failure(reason, &self.input_dir, error);
        if let Some(setting) = limit(error) {
            let reason = format!(
                "cannot watch the input directory, so it is listed every second: {error}: the limit {setting} is used up"
            );
            return LinkFailure::new(FailureKind::Unusable, reason)
                .with_help(format!("sysctl -w {setting}=65536"));
        }
        match error.kind() {
            ErrorKind::NotFound => {
                failure("the input directory is gone".to_owned()).with_help(format!("mkdir -p {directory}"))
            }
            ErrorKind::NotADirectory => failure("the input directory is another kind of file".to_owned())
                .with_help(format!("ls -ld {directory}; replace it by a directory")),
            _ => failure(format!("cannot watch the input directory: {error}")),
        }
    }

    async fn send(&self, notice: DirectoryNotice) {
        // While paused, events wait in the kernel; after an overflow the rescan replaces them.
        if self.child.is_paused() {
            self.child.wait_resumed().await;
        }
        // Waits for room; refused only when the process ends.
        let _ = self.watcher.send(notice).await;
    }
}

/// Kernel setting that refused the watch: a limit for all processes of a user.
fn limit(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::MFILE => Some("fs.inotify.max_user_instances"),
        Errno::NOSPC => Some("fs.inotify.max_user_watches"),
        _ => None,
    }
}

struct Watch {
    events: ReadyChunks<EventStream<Vec<u8>>>,
    inode: (u64, u64),
}

#[derive(Default)]
struct Batch {
    events: Vec<DirectoryEvent>,
    /// True if the kernel's queue overflowed.
    lost: bool,
    /// True if the directory was removed, renamed or unmounted.
    gone: bool,
}

impl Watch {
    fn set(input_dir: &Path) -> io::Result<Self> {
        let inotify = Inotify::init()?;
        let mask = WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::MODIFY
            | WatchMask::MOVED_TO
            | WatchMask::MOVED_FROM
            | WatchMask::CLOSE_WRITE
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        inotify.watches().add(input_dir, mask)?;
        let events = inotify.into_event_stream(vec![0; BUFFER_BYTES])?.ready_chunks(EVENTS_MAX);
        Ok(Self { events, inode: inode(input_dir)? })
    }

    fn is_current(&self, input_dir: &Path) -> bool {
        inode(input_dir).is_ok_and(|inode| inode == self.inode)
    }

    async fn read(&mut self) -> io::Result<Batch> {
        let mut batch = Batch::default();
        // The stream of an inotify descriptor has no end.
        for event in self.events.next().await.unwrap_or_default() {
            batch.add(event?);
        }
        Ok(batch)
    }
}

impl Batch {
    fn add(&mut self, EventOwned { mask, name, .. }: EventOwned) {
        let gone = EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::UNMOUNT | EventMask::IGNORED;
        self.gone |= mask.intersects(gone);
        self.lost |= mask.contains(EventMask::Q_OVERFLOW);
        let changes = [
            (EventMask::CREATE, Change::Created),
            (EventMask::MODIFY, Change::Modified),
            (EventMask::CLOSE_WRITE, Change::Closed),
            (EventMask::MOVED_TO, Change::MovedTo),
            (EventMask::MOVED_FROM, Change::MovedFrom),
            (EventMask::DELETE, Change::Deleted),
        ];
        let change = changes.into_iter().find(|&(bit, _)| mask.contains(bit));
        // Events after the end of the watched directory belong to another directory.
        if let (Some((_, change)), Some(name), false) = (change, name, self.gone) {
            self.events.push(DirectoryEvent { name, change });
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let meta = fs::metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}
