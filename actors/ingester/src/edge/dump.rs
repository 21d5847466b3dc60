//! Dump files (CONTRACT IF09 to IF11), written by a thread. An error of the file never delays a scan. A slow
//! disk delays it, or events without room are left out and counted (`dump_overflow`, CONTRACT IS04).

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use jiff::Timestamp;
use orchestrator_edge::{is_full, report_full};
use orchestrator_ingester_protocols::cbors;
use orchestrator_observe::{Metric, metrics};
use orchestrator_supervise::{Factory, Fault, InboxSlot, Outbox, Reply, StartCx};
use orchestrator_text::sanitize_to;
use tokio::sync::Notify;

use crate::item::Item;

/// Bytes of events that may wait for the disk.
const WAITING_BYTES: usize = 64 << 20;
/// Bytes of one write.
const BUFFER_BYTES: usize = 1 << 20;
/// Bytes shown of a file's path, whose beginning comes from the controller.
const PATH_SHOWN: usize = 256;

/// Command to the dump thread.
#[derive(Debug)]
pub(crate) enum DumpCommand {
    /// Starts a mapping: its events are appended to this file; None: not dumped.
    Open(Option<String>),
    /// Writes an event.
    Event(DumpEvent),
    /// Ends the mapping; answered when the file is closed.
    Close(Reply<()>),
}

/// Items of one event for all streams of this ingester.
#[derive(Debug)]
pub(crate) struct DumpEvent {
    /// Number of the event.
    pub event: u64,
    /// Items by stream, in the order of the streams.
    pub items: Vec<(Arc<str>, Item)>,
    /// Time in the workers' headers.
    pub created_at: Timestamp,
}

impl DumpEvent {
    fn bytes(&self) -> usize {
        self.items.iter().map(|(_, item)| item.bytes() + 64).sum()
    }
}

/// Handle of the dump thread. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Dump {
    outbox: Outbox<DumpCommand>,
    waiting: Arc<WaitingBytes>,
    /// The thread has taken an event.
    taken: Arc<Notify>,
}

/// Bytes of the events that wait for the disk.
#[derive(Debug, Default)]
struct WaitingBytes {
    bytes: AtomicUsize,
    /// Registered at the start of the thread.
    gauge: OnceLock<Metric>,
}

impl WaitingBytes {
    fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    fn add(&self, bytes: usize) -> usize {
        let now = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        self.show();
        now
    }

    fn subtract(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
        self.show();
    }

    fn show(&self) {
        self.gauge.get().into_iter().for_each(|gauge| gauge.set(self.bytes() as u64));
    }
}

impl Dump {
    pub(crate) fn new(outbox: Outbox<DumpCommand>) -> Self {
        Self { outbox, waiting: Arc::default(), taken: Arc::default() }
    }

    /// Outbox for commands that must not be left out.
    pub(crate) fn outbox(&self) -> &Outbox<DumpCommand> {
        &self.outbox
    }

    /// Queues an event, or returns it if there is no room.
    pub(crate) fn offer(&self, event: DumpEvent) -> Result<(), DumpEvent> {
        let bytes = event.bytes();
        if self.waiting.add(bytes) > WAITING_BYTES {
            self.waiting.subtract(bytes);
            return Err(event);
        }
        self.outbox.tell(DumpCommand::Event(event)).map_err(|refused| {
            self.waiting.subtract(bytes);
            match refused.message {
                DumpCommand::Event(event) => event,
                _ => unreachable!("the refused message is the one that was sent"),
            }
        })
    }

    /// Queues an event once there is room. A larger one than all room waits until the others are written.
    pub(crate) async fn queue(&self, event: DumpEvent) {
        let bytes = event.bytes();
        loop {
            let mut taken = pin!(self.taken.notified());
            taken.as_mut().enable();
            let waiting = self.waiting.bytes();
            if waiting == 0 || waiting + bytes <= WAITING_BYTES {
                break;
            }
            taken.await;
        }
        self.waiting.add(bytes);
        // It fails only at the end of the process.
        let _ = self.outbox.send(DumpCommand::Event(event)).await;
    }

    pub(crate) fn factory(&self, commands: &InboxSlot<DumpCommand>) -> Factory {
        let (slot, waiting, taken) = (commands.clone(), self.waiting.clone(), self.taken.clone());
        let factory = Factory::thread(move |cx: StartCx| {
            let mut writer = DumpWriter::new(&cx);
            writer.metrics.waiting.set_bound(WAITING_BYTES as u64);
            waiting.gauge.get_or_init(|| writer.metrics.waiting.clone());
            let mut commands = slot.open();
            while let Some(command) = commands.next_blocking(&cx) {
                if let DumpCommand::Event(event) = &command {
                    waiting.subtract(event.bytes());
                    taken.notify_waiters();
                }
                let _work = cx.vitals.begin_work("write dump");
                match command {
                    DumpCommand::Open(path) => writer.open(path),
                    DumpCommand::Event(event) => writer.write(&event),
                    DumpCommand::Close(closed) => {
                        writer.close();
                        // The sender may have continued without the answer.
                        let _ = closed.send(());
                    }
                }
            }
            writer.close();
            Ok::<(), Fault>(())
        });
        factory.with_inbox("events", commands)
    }
}

metrics! {
    /// Metrics of the dump.
    struct DumpMetrics {
        /// Events written to dump files.
        events: counter("events") as "dumped_events",
        /// Bytes written to dump files.
        bytes: counter("bytes") as "dumped",
        /// Dump files that could not be opened or written.
        errors: counter("errors") as "dump_errors",
        /// Bytes of the events that wait for the dump's disk.
        waiting: gauge("bytes") as "dump_waiting",
    }
}

/// Writer of the current mapping's events.
struct DumpWriter {
    cx: StartCx,
    output: Option<DumpFile>,
    /// Path and length of the file that was closed last.
    closed: Option<(String, u64)>,
    metrics: DumpMetrics,
}

impl DumpWriter {
    fn new(cx: &StartCx) -> Self {
        Self { cx: cx.clone(), output: None, closed: None, metrics: DumpMetrics::register(&cx.vitals) }
    }

    fn open(&mut self, path: Option<String>) {
        self.close();
        self.cx.vitals.clear_blocker();
        let Some(path) = path else { return };
        match DumpFile::open(&path) {
            Ok(mut output) => {
                self.remove_partial_event(&mut output);
                self.output = Some(output);
            }
            Err(error) => self.failed(&path, &error),
        }
    }

    /// Removes an event that a killed process wrote in part. Events behind it could not be read.
    fn remove_partial_event(&self, output: &mut DumpFile) {
        if self.closed.as_ref().is_some_and(|(path, end)| *path == output.path && *end == output.end) {
            return;
        }
        let text = match output.remove_partial_event() {
            Ok(0) => return,
            Ok(removed) => {
                format!("its last {removed} bytes were an event that was cut off, and are removed")
            }
            Err(error) => format!("it may end with an event that was cut off: {error}"),
        };
        let text = format!("dump {}: {text}", sanitize_to(&output.path, PATH_SHOWN));
        tracing::warn!(path = self.cx.vitals.path(), text);
        self.cx.vitals.note(text);
    }

    fn write(&mut self, event: &DumpEvent) {
        let Some(output) = &mut self.output else { return };
        let items = event.items.iter().map(|(stream, item)| (&**stream, &*item.typ, &*item.frames));
        let before = output.waiting.len();
        cbors::encode_event(&mut output.waiting, event.event, items, event.created_at);
        self.metrics.events.add(1);
        self.metrics.bytes.add((output.waiting.len() - before) as u64);
        if output.waiting.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    fn close(&mut self) {
        self.flush();
        if let Some(output) = self.output.take() {
            self.closed = Some((output.path, output.end));
        }
    }

    /// Writes the buffered events. After an error none of them is in the file, and the file is
    /// closed.
    fn flush(&mut self) {
        let Some(mut output) = self.output.take() else { return };
        match output.flush() {
            Ok(()) => self.output = Some(output),
            Err(error) => self.failed(&output.path, &error),
        }
    }

    fn failed(&self, path: &str, error: &std::io::Error) {
        self.metrics.errors.add(1);
        let text = format!(
            "dump {}: {error}: the rest of this mapping is not dumped; make room, or set another dump_prefix",
            sanitize_to(path, PATH_SHOWN)
        );
        tracing::error!(path = self.cx.vitals.path(), text);
        if is_full(error) {
            report_full(&self.cx.vitals, Path::new(path), &text);
        }
        self.cx.vitals.note(text);
    }
}

/// A dump file, and whole events buffered for it.
struct DumpFile {
    path: String,
    file: File,
    /// Length of the file after the last whole event, bytes.
    end: u64,
    waiting: Vec<u8>,
}

impl DumpFile {
    fn open(path: &str) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let end = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, end, waiting: Vec::new() })
    }

    /// Removes what follows the last whole event, if the file is a dump. Returns the number of removed bytes:
    /// 0 if another process has locked the file, because it may be writing.
    fn remove_partial_event(&mut self) -> io::Result<u64> {
        if self.end == 0 || !self.file.metadata()?.is_file() || self.file.try_lock().is_err() {
            return Ok(0);
        }
        let whole = cbors::whole_events(File::open(&self.path)?, self.end)?.unwrap_or(self.end);
        let removed = self.end - whole;
        if removed > 0 {
            self.file.set_len(whole)?;
            self.end = whole;
        }
        Ok(removed)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        while written < self.waiting.len() {
            match self.file.write(&self.waiting[written..]) {
                Ok(0) => return Err(self.truncate_partial(written as u64, io::ErrorKind::WriteZero.into())),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.truncate_partial(written as u64, error)),
            }
        }
        self.end += written as u64;
        self.waiting.clear();
        // Frees the memory of a large event.
        self.waiting.shrink_to(4 * BUFFER_BYTES);
        Ok(())
    }

    /// Removes a partly written event, which would make the rest of the file unreadable.
    fn truncate_partial(&self, written: u64, error: io::Error) -> io::Error {
        // Skipped if another process has written to the file.
        let ours = self.file.metadata().is_ok_and(|now| now.len() == self.end + written);
        if ours && let Err(error) = self.file.set_len(self.end) {
            tracing::warn!(path = self.path, %error, "a partly written event remains at the end of the dump");
        }
        error
    }
}
