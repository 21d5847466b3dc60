//! The thread that reads the files of one stream, for all its runs. One that hangs in a read is shown so, and no other is started beside it.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestrator_supervise::{Factory, Fault, Outbox, StartCx, block_on, inbox};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::protocol::cbors::{CborsError, Entry, Reader};

/// Entries that are read ahead.
const AHEAD: usize = 4;
/// KiB of entries that are read ahead; a longer one is read alone.
const AHEAD_KIB: u32 = 64 << 10;
/// Runs that may wait for the thread. More than the present one are there only while it hangs.
const RUNS: usize = 8;

/// What is read, or why nothing more is.
#[derive(Debug)]
pub(super) struct Entries(mpsc::Receiver<Ahead>);

impl Entries {
    /// The next one; None at the end of the file.
    pub(super) async fn next(&mut self) -> Option<Result<Entry, CborsError>> {
        self.0.recv().await.map(|ahead| ahead.entry)
    }
}

/// An entry, and the room that it takes as long as it waits.
#[derive(Debug)]
struct Ahead {
    entry: Result<Entry, CborsError>,
    _room: Option<OwnedSemaphorePermit>,
}

/// The way to the thread.
#[derive(Debug, Clone)]
pub(super) struct Reading(Outbox<Order>);

/// A file to be read for a run.
#[derive(Debug)]
struct Order {
    file: PathBuf,
    run: mpsc::Sender<Ahead>,
    room: Arc<Semaphore>,
}

/// The thread, and the way to it.
pub(super) fn companion() -> (Reading, Factory) {
    let (outbox, slot) = inbox::<Order>(RUNS);
    let orders = slot.clone();
    let thread = Factory::thread(move |cx: StartCx| {
        let mut orders = orders.open();
        while let Some(order) = orders.next_blocking(&cx) {
            order.carry_out(&cx);
        }
        Ok::<(), Fault>(())
    });
    (Reading(outbox), thread.with_inbox("files", &slot))
}

impl Reading {
    /// Begins with `file`; the reading ends with it, or when what is given is dropped.
    ///
    /// # Errors
    /// The thread hangs; the text says what to do.
    pub(super) fn begin(&self, file: &Path) -> Result<Entries, String> {
        let (run, entries) = mpsc::channel(AHEAD);
        let room = Arc::new(Semaphore::new(AHEAD_KIB as usize));
        let refused = self.0.tell(Order { file: file.to_owned(), run, room }).is_err();
        if refused {
            return Err("its file system does not answer: see that it does, then restart this".to_owned());
        }
        Ok(Entries(entries))
    }
}

impl Order {
    fn carry_out(self, cx: &StartCx) {
        // Of a run that was over before its turn came.
        if self.run.is_closed() {
            return;
        }
        let opened = {
            let _work = cx.vitals.begin_work("open file");
            File::open(&self.file)
        };
        let mut reader = match opened {
            Ok(file) => Reader::new(file),
            Err(error) => {
                self.hand_over(Err(error.into()), cx);
                return;
            }
        };
        loop {
            let entry = {
                let _work = cx.vitals.begin_work("read file");
                reader.next().transpose()
            };
            let Some(entry) = entry else { return };
            let failed = entry.is_err();
            if !self.hand_over(entry, cx) || failed {
                return;
            }
        }
    }

    /// Waits until the run takes it; false if it does not any more.
    fn hand_over(&self, entry: Result<Entry, CborsError>, cx: &StartCx) -> bool {
        let kib = entry.as_ref().map_or(0, |entry| u32::try_from(entry.bytes() >> 10).unwrap_or(u32::MAX));
        let given = block_on(None, async {
            let send = async {
                // The room is never closed.
                let _room = self.room.clone().acquire_many_owned(kib.min(AHEAD_KIB)).await.ok();
                self.run.send(Ahead { entry, _room }).await.is_ok()
            };
            tokio::select! {
                biased;
                given = send => given,
                // Also while there is no room.
                () = self.run.closed() => false,
                () = cx.stop.cancelled() => false,
            }
        });
        given.unwrap_or_default()
    }
}
