//! The input directory's events: a watch on the directory, and its end when the directory goes (CONTRACT QF07,
//! QR10 to QR15).
//!
//! The watch is set first and a rescan asked for second, so that nothing falls between the two; likewise when the
//! kernel's queue overflowed. The directory's events carry the names of its files, so no file needs a watch of its own.
//! While the directory is away the link is down and nothing is created, removed or rescanned.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::ReadyChunks};
use inotify::{EventMask, EventOwned, EventStream, Inotify, WatchMask};
use orchestrator_supervise::{Factory, LinkReporter, Mailbox, StartCx, Vitals};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::error::EdgeError;
use crate::{
    fetcher_watcher::FetcherWatcher,
    messages::{Change, DirectoryEvent, DirectoryNotice},
};

/// How often an absent directory is looked for.
const RETRY: Duration = Duration::from_millis(250);

/// How often it is checked that the path still stands for the directory that is watched.
const CHECK: Duration = Duration::from_secs(1);

/// How long a notice waits when the watcher's mailbox is full; meanwhile events wait in the kernel.
const FULL: Duration = Duration::from_millis(5);

/// Room for some hundred events.
const BUFFER_BYTES: usize = 16 * 1024;

/// The most events passed on at a time.
const EVENTS_MAX: usize = 256;

/// Creates the input directory and its parents if they are missing (CONTRACT QD05). For the start of the process only: an input
/// directory that goes later is waited for, never created.
///
/// # Errors
/// If the operating system refuses.
pub fn create_input_dir(input_dir: &Path) -> Result<(), EdgeError> {
    fs::create_dir_all(input_dir).map_err(EdgeError::refused("create input directory", input_dir))
}

/// The child that watches `input_dir` for `watcher`. Paused, it passes nothing on.
pub fn factory(input_dir: PathBuf, watcher: Mailbox<FetcherWatcher>) -> Factory {
    Factory::task(move |cx: StartCx| {
        let edge = Edge {
            link: cx.vitals.link("inotify", input_dir.display().to_string()),
            input_dir: input_dir.clone(),
            watcher: watcher.clone(),
            vitals: cx.vitals.clone(),
        };
        async move {
            tokio::select! {
                biased;
                () = cx.stop.cancelled() => Ok(()),
                never = edge.run() => match never {},
            }
        }
    })
}

struct Edge {
    input_dir: PathBuf,
    watcher: Mailbox<FetcherWatcher>,
    link: LinkReporter,
    vitals: Arc<Vitals>,
}

impl Edge {
    async fn run(self) -> std::convert::Infallible {
        let mut attempt = 0;
        loop {
            attempt += 1;
            self.link.connecting(attempt);
            let reason = match Watch::set(&self.input_dir) {
                Ok(watch) => {
                    attempt = 0;
                    self.tell(DirectoryNotice::Rescan).await;
                    self.link.up();
                    self.follow(watch).await
                }
                Err(error) => reason(&error),
            };
            self.link.down(reason, RETRY);
            sleep(RETRY).await;
        }
    }

    /// Passes events on until the directory is gone; says why it stopped.
    async fn follow(&self, mut watch: Watch) -> String {
        let mut check = interval(CHECK);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let read = tokio::select! {
                biased;
                read = watch.read() => read,
                _ = check.tick() => match watch.is_current(&self.input_dir) {
                    true => continue,
                    false => return GONE.to_owned(),
                },
            };
            match read {
                Ok(batch) => {
                    if !batch.events.is_empty() {
                        self.tell(DirectoryNotice::Changed(batch.events)).await;
                    }
                    if batch.gone {
                        return GONE.to_owned();
                    }
                    if batch.lost {
                        tracing::warn!("directory events were lost: listing the input directory again");
                        self.tell(DirectoryNotice::Rescan).await;
                    }
                }
                Err(error) => return reason(&error),
            }
        }
    }

    async fn tell(&self, mut notice: DirectoryNotice) {
        // Paused, events wait in the kernel; if they become too many, the rescan makes up for them.
        if self.vitals.is_paused() {
            self.vitals.wait_resumed().await;
        }
        while let Err(refused) = self.watcher.tell(notice) {
            notice = refused.message;
            sleep(FULL).await;
        }
    }
}

const GONE: &str = "input directory is gone: create it again";

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => GONE.to_owned(),
        io::ErrorKind::NotADirectory => "input directory is something else: make it a directory".to_owned(),
        _ => format!("cannot watch the input directory: {error}"),
    }
}

struct Watch {
    events: ReadyChunks<EventStream<Vec<u8>>>,
    inode: (u64, u64),
}

#[derive(Default)]
struct Batch {
    events: Vec<DirectoryEvent>,
    /// The queue overflowed.
    lost: bool,
    /// The directory was removed, renamed or unmounted.
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
        // The stream has no end: an inotify descriptor always has more to come.
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
        // What came after the end of the directory is of another one, or of none.
        if let (Some((_, change)), Some(name), false) = (change, name, self.gone) {
            self.events.push(DirectoryEvent { name, change });
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let meta = fs::metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}
