//! Dump files (CONTRACT IF09 to IF11), on a thread of their own. A disk that is slow or full never holds up a scan: events that the dump has no
//! room for are left out of it, which is counted and noted.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use jiff::Timestamp;
use orchestrator_supervise::{Factory, Fault, InboxSlot, Outbox, Reply, StartCx, metrics, sanitize_to};

use crate::{item::Item, protocol::cbors};

/// Bytes of events that may wait for the disk.
const WAITING_BYTES: usize = 64 << 20;
/// Written at once.
const BUFFER: usize = 1 << 20;
/// Bytes that are shown of a file's path: its beginning comes from the controller.
const PATH_SHOWN: usize = 256;

/// What the dump is told.
#[derive(Debug)]
pub enum DumpCommand {
    /// A mapping begins: its events go to this file, behind what is there; None: they are not dumped.
    Open(Option<String>),
    /// An event.
    Event(DumpEvent),
    /// The mapping is finished; answered when its file is closed.
    Close(Reply<()>),
}

/// All that one event has of this ingester's streams.
#[derive(Debug)]
pub struct DumpEvent {
    /// Its number.
    pub event: u64,
    /// Its items by stream, in the order of the streams.
    pub items: Vec<(Arc<str>, Item)>,
    /// As in the workers' headers.
    pub created_at: Timestamp,
}

impl DumpEvent {
    fn bytes(&self) -> usize {
        self.items.iter().map(|(_, item)| item.bytes() + 64).sum()
    }
}

/// Where events are handed to the dump. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Dump {
    outbox: Outbox<DumpCommand>,
    waiting: Arc<AtomicUsize>,
}

impl Dump {
    /// Hands over to the child whose inbox `outbox` leads to.
    pub fn new(outbox: Outbox<DumpCommand>) -> Self {
        Self { outbox, waiting: Arc::default() }
    }

    /// The way to the child, for what must not be left out.
    pub fn outbox(&self) -> &Outbox<DumpCommand> {
        &self.outbox
    }

    /// Hands over an event; false if there is no room for it.
    pub fn offer(&self, event: DumpEvent) -> bool {
        let bytes = event.bytes();
        if self.waiting.fetch_add(bytes, Relaxed) + bytes > WAITING_BYTES {
            self.waiting.fetch_sub(bytes, Relaxed);
            return false;
        }
        let taken = self.outbox.tell(DumpCommand::Event(event)).is_ok();
        if !taken {
            self.waiting.fetch_sub(bytes, Relaxed);
        }
        taken
    }

    /// The child that writes.
    pub fn factory(&self, commands: &InboxSlot<DumpCommand>) -> Factory {
        let (slot, waiting) = (commands.clone(), self.waiting.clone());
        let factory = Factory::thread(move |cx: StartCx| {
            let mut writer = Writer::new(&cx);
            let mut commands = slot.open();
            while let Some(command) = commands.next_blocking(&cx) {
                if let DumpCommand::Event(event) = &command {
                    waiting.fetch_sub(event.bytes(), Relaxed);
                }
                let _work = cx.vitals.begin_work("write dump");
                match command {
                    DumpCommand::Open(path) => writer.open(path),
                    DumpCommand::Event(event) => writer.write(&event),
                    DumpCommand::Close(closed) => {
                        writer.close();
                        // Who asked may have gone on without the answer.
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
    }
}

/// Writes the running mapping.
struct Writer {
    cx: StartCx,
    output: Option<Output>,
    metrics: DumpMetrics,
}

impl Writer {
    fn new(cx: &StartCx) -> Self {
        Self { cx: cx.clone(), output: None, metrics: DumpMetrics::register(&cx.vitals) }
    }

    fn open(&mut self, path: Option<String>) {
        self.close();
        let Some(path) = path else { return };
        match Output::open(&path) {
            Ok(output) => self.output = Some(output),
            Err(error) => self.failed(&path, &error),
        }
    }

    fn write(&mut self, event: &DumpEvent) {
        let Some(output) = &mut self.output else { return };
        let items = event.items.iter().map(|(stream, item)| (&**stream, &*item.typ, &*item.frames));
        let before = output.waiting.len();
        cbors::encode_event(&mut output.waiting, event.event, items, event.created_at);
        self.metrics.events.add(1);
        self.metrics.bytes.add((output.waiting.len() - before) as u64);
        if output.waiting.len() >= BUFFER {
            self.flush();
        }
    }

    fn close(&mut self) {
        self.flush();
        self.output = None;
    }

    /// Writes what waits. If that fails nothing of it is in the file, and the file is given up.
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
        self.cx.vitals.note(text);
    }
}

/// The file, and whole events that wait to be written to it.
struct Output {
    path: String,
    file: File,
    /// Bytes of the file, all of them whole events.
    end: u64,
    waiting: Vec<u8>,
}

impl Output {
    fn open(path: &str) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let end = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, end, waiting: Vec::new() })
    }

    /// Writes what waits.
    fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        while written < self.waiting.len() {
            match self.file.write(&self.waiting[written..]) {
                Ok(0) => return Err(self.cut(written as u64, io::ErrorKind::WriteZero.into())),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.cut(written as u64, error)),
            }
        }
        self.end += written as u64;
        self.waiting.clear();
        // What one huge event needed is not kept.
        self.waiting.shrink_to(4 * BUFFER);
        Ok(())
    }

    /// Takes back what was written of events that are not whole: it would spoil what is written after it.
    fn cut(&self, written: u64, error: io::Error) -> io::Error {
        // Unless somebody else has written, too.
        let ours = self.file.metadata().is_ok_and(|now| now.len() == self.end + written);
        if ours && let Err(error) = self.file.set_len(self.end) {
            tracing::warn!(path = self.path, %error, "a part of an event is left at the end of the dump");
        }
        error
    }
}
