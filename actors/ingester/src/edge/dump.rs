//! Dump files (spec §10), on a thread of their own. A disk that is slow or full never holds up a scan: events that the dump has no
//! room for are left out of it, which is counted and noted.

use std::{
    fs::{File, OpenOptions},
    io::{BufWriter, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use jiff::Timestamp;
use orchestrator_supervise::{Factory, Fault, Figure, FigureKind, InboxSlot, Outbox, StartCx};
use tokio::sync::oneshot;

use crate::{item::Item, protocol::cbors};

/// Bytes of events that may wait for the disk.
const WAITING_BYTES: usize = 64 << 20;
/// Written at once.
const BUFFER: usize = 1 << 20;

/// What the dump is told.
#[derive(Debug)]
pub enum DumpCommand {
    /// A mapping begins: its events go to this file, behind what is there; None: they are not dumped.
    Open(Option<String>),
    /// An event.
    Event(DumpEvent),
    /// The mapping is finished; answered when its file is closed.
    Close(oneshot::Sender<()>),
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
                let _work = cx.vitals.hold("write dump");
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

/// The file of the running mapping.
struct Writer {
    cx: StartCx,
    file: Option<(String, BufWriter<File>)>,
    text: Vec<u8>,
    events: Figure,
    bytes: Figure,
    errors: Figure,
}

impl Writer {
    fn new(cx: &StartCx) -> Self {
        let counter = |name, unit| cx.vitals.declare(name, unit, FigureKind::Counter);
        Self {
            cx: cx.clone(),
            file: None,
            text: Vec::new(),
            events: counter("dumped_events", "events"),
            bytes: counter("dumped", "bytes"),
            errors: counter("dump_errors", "errors"),
        }
    }

    fn open(&mut self, path: Option<String>) {
        self.close();
        let Some(path) = path else { return };
        match OpenOptions::new().create(true).append(true).open(&path) {
            Ok(file) => self.file = Some((path, BufWriter::with_capacity(BUFFER, file))),
            Err(error) => self.failed(&path, &error),
        }
    }

    fn write(&mut self, event: &DumpEvent) {
        let Some((path, file)) = &mut self.file else { return };
        self.text.clear();
        let items = event.items.iter().map(|(stream, item)| (&**stream, &*item.typ, &*item.frames));
        cbors::encode_event(&mut self.text, event.event, items, event.created_at);
        match file.write_all(&self.text) {
            Ok(()) => {
                self.events.add(1);
                self.bytes.add(self.text.len() as u64);
            }
            Err(error) => {
                // Half an event would spoil what is written after it.
                let path = std::mem::take(path);
                self.file = None;
                self.failed(&path, &error);
            }
        }
        // What one huge event needed is not kept.
        self.text.shrink_to(4 * BUFFER);
    }

    fn close(&mut self) {
        if let Some((path, mut file)) = self.file.take()
            && let Err(error) = file.flush()
        {
            self.failed(&path, &error);
        }
    }

    fn failed(&self, path: &str, error: &std::io::Error) {
        self.errors.add(1);
        let text = format!(
            "dump {path}: {error}: the rest of this mapping is not dumped; make room, or set another dump_prefix"
        );
        tracing::error!(path = self.cx.vitals.path(), text);
        self.cx.vitals.note(text);
    }
}
