//! A worker's end: takes its messages, and complains of the first that is not the one it should be.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use uuid::Uuid;

use super::{
    load::{Load, frame_of, name},
    wire::{Head, dial, greet, put_frame},
};

/// Room for what is read at once, bytes.
const BLOCK: usize = 256 << 10;
/// So much later nothing more may have come.
const AFTERWARDS: Duration = Duration::from_millis(50);

/// One connected worker.
pub(super) struct Sink {
    worker: usize,
    stream: TcpStream,
    block: Vec<u8>,
    from: usize,
    to: usize,
}

/// Measurements of a sink.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) first: Instant,
    pub(super) last: Instant,
    /// Bytes of pixels.
    pub(super) pixels: u64,
}

impl Sink {
    /// Connects to `port`, and says what workers say.
    pub(super) fn connect(worker: usize, port: u16) -> Result<Self> {
        let mut stream = dial(port)?;
        greet(&mut stream, "DEALER", &name(worker))?;
        let mut ping = Vec::new();
        put_frame(&mut ping, Uuid::new_v4().as_bytes(), false);
        stream.write_all(&ping)?;
        Ok(Self { worker, stream, block: vec![0; BLOCK], from: 0, to: 0 })
    }

    /// Takes all of the worker's events, in order.
    pub(super) fn take(&mut self, load: &Load) -> Result<Seen> {
        let mut seen: Option<Seen> = None;
        let (mut pixels, worker) = (0, self.worker);
        for event in (0..load.events).filter(|event| load.goes_to(*event, worker)) {
            let taken = self.event(event, load);
            pixels += taken.with_context(|| format!("event {event} at worker {worker}"))?;
            if seen.is_none() || event + load.workers as u64 >= load.events {
                let now = Instant::now();
                let first = seen.map_or(now, |seen| seen.first);
                seen = Some(Seen { first, last: now, pixels });
            }
        }
        seen.context("a load has an event for each worker")
    }

    /// Has anything come that nobody waits for?
    pub(super) fn check_end(mut self) -> Result<()> {
        std::thread::sleep(AFTERWARDS);
        self.stream.set_nonblocking(true)?;
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && self.from == self.to => Ok(()),
            Ok(0) => bail!("worker {}: the connection was closed", self.worker),
            _ => bail!("worker {}: more has come than was assigned", self.worker),
        }
    }

    /// Takes one event; bytes of its pixels.
    fn event(&mut self, event: u64, load: &Load) -> Result<u64> {
        let head = self.head()?;
        ensure!(head.more, "the message has no frames");
        let text = self.body(head.body)?;
        let number = text.strip_prefix(br#"{"event_number":"#).context("an event's header")?;
        let digits = number.iter().take_while(|byte| byte.is_ascii_digit());
        let number = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        ensure!(number == event, "it is event {number}");
        let head = self.head()?;
        let text = self.body(head.body)?;
        if event == 0 {
            ensure!(!head.more && text.starts_with(br#"{"htype":"header""#), "it is no start");
            return Ok(0);
        }
        let frame = frame_of(text).context("an image's text")?;
        ensure!(frame == event - 1, "it has the frame {frame}");
        ensure!(head.more, "the image has no pixels");
        let head = self.head()?;
        ensure!(!head.more && head.body == load.bytes, "it has {} bytes of pixels", head.body);
        let marked = head.body.min(8);
        let mark = self.body(marked)?;
        ensure!(*mark == event.to_le_bytes()[..marked], "its pixels are another frame's");
        self.skip(head.body - marked)?;
        Ok(load.bytes as u64)
    }

    fn head(&mut self) -> Result<Head> {
        loop {
            if let Some(head) = Head::read(&self.block[self.from..self.to]) {
                self.from += head.head;
                return Ok(head);
            }
            self.fill()?;
        }
    }

    /// A body that fits into the block.
    fn body(&mut self, len: usize) -> Result<&[u8]> {
        ensure!(len < BLOCK / 2, "a text of {len} bytes");
        while self.to - self.from < len {
            self.fill()?;
        }
        self.from += len;
        Ok(&self.block[self.from - len..self.from])
    }

    fn skip(&mut self, mut len: usize) -> Result<()> {
        loop {
            let there = len.min(self.to - self.from);
            self.from += there;
            len -= there;
            if len == 0 {
                return Ok(());
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        if self.from > 0 {
            self.block.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        let count = self.stream.read(&mut self.block[self.to..]).context("nothing comes")?;
        ensure!(count > 0, "the connection was closed");
        self.to += count;
        Ok(())
    }
}
