//! The file reader: a thread that lists the input directory, reads fetcher files and hands their rows to the store.
//!
//! It obeys the commands of the fetcher watcher in order, asks [`Tracking`](crate::tracking) what to do, and does it.
//! All blocking file access of the subsystem is here. No file can end it: what is wrong with a file is a warning.

mod agenda;
mod following;
mod listing;
mod probe;
mod reader;
mod reading;
mod rescan;

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
    file_name::WarnedNames,
    messages::{IngestOp, ReadCommand},
};

/// Commands obeyed before a slice of a file is read: however many come, reading goes on.
const COMMANDS_A_TURN: usize = 256;

/// Set when a command could not be queued: the reader must look at everything again. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct RescanFlag(Arc<AtomicBool>);

impl RescanFlag {
    /// Asks for a rescan before the reader next waits.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

/// The child that reads the files of `input_dir`. It starts with nothing known and waits for [`ReadCommand::Rescan`].
pub fn factory(
    input_dir: PathBuf,
    commands: &InboxSlot<ReadCommand>,
    rescan: RescanFlag,
    warned: WarnedNames,
    ops: Outbox<IngestOp>,
) -> Factory {
    let slot = commands.clone();
    Factory::thread(move |cx: StartCx| {
        let reader = Reader::new(input_dir.clone(), warned.clone(), ops.clone(), &cx);
        // Asked to stop, it stops at once: what is unread is read at the next start.
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
        for _ in 0..COMMANDS_A_TURN {
            let Some(command) = commands.try_recv() else { break };
            let _in_hand = cx.vitals.begin_work("read command");
            reader.obey(command)?;
        }
        if rescan.take() {
            reader.obey(ReadCommand::Rescan)?;
        }
        let deadline = reader.deadline(Instant::now());
        if deadline.is_some_and(|at| at <= Instant::now()) {
            let _in_hand = cx.vitals.begin_work("file");
            reader.work(Instant::now())?;
            continue;
        }
        match commands.recv_blocking(&cx.stop, deadline) {
            Received::Item(command) => {
                let _in_hand = cx.vitals.begin_work("read command");
                reader.obey(command)?;
            }
            Received::Stopped => return Err(Stopped),
            Received::TimedOut => {}
        }
    }
}
