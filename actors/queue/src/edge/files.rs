//! The file reader: a thread that lists the input directory, reads fetcher files and sends their
//! rows to the store.
//!
//! Executes the commands of the fetcher watcher in order and follows the decisions of
//! [`Tracking`](orchestrator_queue_rules::tracking). All blocking file access of the subsystem is here. An
//! error of a file is a warning and never ends the child.

mod actions;
mod followed_file;
mod links;
mod listing;
mod probe;
mod reader;
mod rescan;
mod schedule;
mod unread_files;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use orchestrator_supervise::{Factory, InboxSlot, Outbox, Received, StartCx};

use self::reader::{Reader, Stopped};
use crate::{
    messages::{IngestOp, ReadCommand},
    refused_files::RefusedInDirectory,
    warned_names::WarnedNames,
};

/// Maximum number of commands executed before the next slice of a file is read.
const COMMANDS_PER_TURN: usize = 256;

/// Request for a rescan, raised when a command did not fit the reader's inbox. Clones share it.
///
/// An atomic flag and not a message, because the inbox for messages is full at that moment. It is
/// not `Durable` state: every new incarnation of the watcher requests a rescan anyway.
#[derive(Debug, Clone, Default)]
pub(crate) struct RescanFlag(Arc<AtomicBool>);

impl RescanFlag {
    /// Requests a rescan before the reader next waits.
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

/// The child waits for the first [`ReadCommand::Rescan`]. With `is_only_source`, all jobs come from fetcher
/// files.
pub(crate) fn factory(
    input_dir: PathBuf,
    commands: &InboxSlot<ReadCommand>,
    rescan: RescanFlag,
    warned: WarnedNames,
    refused: RefusedInDirectory,
    ops: Outbox<IngestOp>,
    is_only_source: bool,
) -> Factory {
    let slot = commands.clone();
    Factory::thread(move |cx: StartCx| {
        let reader =
            Reader::new(input_dir.clone(), warned.clone(), refused.clone(), ops.clone(), is_only_source, &cx);
        // The reader stops at once; the next start reads the remaining lines.
        let Err(Stopped) = run(reader, &slot, &rescan, &cx);
        Ok(())
    })
    .with_inbox("commands", commands)
}

fn run(
    mut reader: Reader,
    slot: &InboxSlot<ReadCommand>,
    rescan: &RescanFlag,
    cx: &StartCx,
) -> Result<std::convert::Infallible, Stopped> {
    let mut commands = slot.open();
    loop {
        if cx.stop.is_cancelled() {
            return Err(Stopped);
        }
        for _ in 0..COMMANDS_PER_TURN {
            let Some(command) = commands.try_recv() else { break };
            reader.during("read command", |reader| reader.execute(command))?;
        }
        if rescan.take() {
            reader.during("read command", |reader| reader.execute(ReadCommand::Rescan))?;
        }
        // Also before a slice: a large file is read without a wait.
        reader.report_files();
        let deadline = reader.deadline(Instant::now());
        if deadline.is_some_and(|at| at <= Instant::now()) {
            reader.during("file", |reader| reader.work(Instant::now()))?;
            continue;
        }
        match commands.recv_blocking(&cx.stop, deadline) {
            Received::Item(command) => {
                reader.during("read command", |reader| reader.execute(command))?;
            }
            Received::Stopped => return Err(Stopped),
            Received::TimedOut => {}
        }
    }
}
