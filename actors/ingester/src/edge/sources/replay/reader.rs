//! Thread that reads the files of one stream for all its runs. The tree shows a read that hangs; no
//! second thread is started.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestrator_ingester_protocols::cbors::{CborsError, Entry, Reader};
use orchestrator_supervise::{Factory, Fault, Outbox, StartCx, block_on, inbox};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Entries read ahead.
const READ_AHEAD_ENTRIES: usize = 4;
/// KiB of entries read ahead; a longer one is read alone.
const READ_AHEAD_KIB: u32 = 64 << 10;
/// Runs that may wait for the thread. More than one waits only while the thread hangs.
const REQUESTS_MAX: usize = 8;

/// Entries of a file, or the error that ended the reading.
#[derive(Debug)]
pub(super) struct Entries(mpsc::Receiver<ReadEntry>);

impl Entries {
    /// Next entry; None at the end of the file.
    pub(super) async fn next(&mut self) -> Option<Result<Entry, CborsError>> {
        self.0.recv().await.map(|ahead| ahead.entry)
    }
}

/// An entry and its share of the read-ahead limit.
#[derive(Debug)]
struct ReadEntry {
    entry: Result<Entry, CborsError>,
    _room: Option<OwnedSemaphorePermit>,
}

/// Handle of the thread.
#[derive(Debug, Clone)]
pub(super) struct FileReader(Outbox<ReadRequest>);

/// A file to read for a run.
#[derive(Debug)]
struct ReadRequest {
    file: PathBuf,
    run: mpsc::Sender<ReadEntry>,
    room: Arc<Semaphore>,
}

/// Creates the handle, and the factory of the thread.
pub(super) fn reader_child() -> (FileReader, Factory) {
    let (outbox, slot) = inbox::<ReadRequest>(REQUESTS_MAX);
    let requests = slot.clone();
    let thread = Factory::thread(move |cx: StartCx| {
        let mut requests = requests.open();
        while let Some(request) = requests.next_blocking(&cx) {
            request.execute(&cx);
        }
        Ok::<(), Fault>(())
    });
    (FileReader(outbox), thread.with_inbox("files", &slot))
}

impl FileReader {
    /// Starts reading `file`; reading ends with the file, or when the entries are dropped.
    ///
    /// # Errors
    /// The thread hangs; the text says what to do.
    pub(super) fn begin(&self, file: &Path) -> Result<Entries, String> {
        let (run, entries) = mpsc::channel(READ_AHEAD_ENTRIES);
        let room = Arc::new(Semaphore::new(READ_AHEAD_KIB as usize));
        let refused = self.0.tell(ReadRequest { file: file.to_owned(), run, room }).is_err();
        if refused {
            return Err("its file system does not respond: repair it, then restart this child".to_owned());
        }
        Ok(Entries(entries))
    }
}

impl ReadRequest {
    fn execute(self, cx: &StartCx) {
        // The run ended before the thread was free.
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
                self.deliver(Err(error.into()), cx);
                return;
            }
        };
        loop {
            let entry = {
                let _work = cx.vitals.begin_work("read file");
                reader.read().transpose()
            };
            let Some(entry) = entry else { return };
            let failed = entry.is_err();
            if !self.deliver(entry, cx) || failed {
                return;
            }
        }
    }

    /// Waits until the run takes the entry; false if the run has ended.
    fn deliver(&self, entry: Result<Entry, CborsError>, cx: &StartCx) -> bool {
        let kib = entry.as_ref().map_or(0, |entry| u32::try_from(entry.bytes() >> 10).unwrap_or(u32::MAX));
        let given = block_on(None, async {
            let send = async {
                // The semaphore is never closed.
                let _room = self.room.clone().acquire_many_owned(kib.min(READ_AHEAD_KIB)).await.ok();
                self.run.send(ReadEntry { entry, _room }).await.is_ok()
            };
            tokio::select! {
                biased;
                given = send => given,
                // Ends the wait for room, too.
                () = self.run.closed() => false,
                () = cx.stop.cancelled() => false,
            }
        });
        given.unwrap_or_default()
    }
}
