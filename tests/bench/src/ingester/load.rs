//! The source of a bench: STINS events of one stream, and their assignment to workers.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::wire::{accept, greet, put_frame, put_head};

/// The stream's name.
pub(super) const STREAM: &str = "eiger";
/// Number of the first frame: all have as many digits.
const FIRST: u64 = 1_000_000_000;
/// Largest block of messages that is written at once, bytes.
const BATCH: usize = 256 << 10;
/// Events of an entry of assignments: as many as a controller writes with batched maps.
const ENTRY: u64 = 10_000;
/// Where an image says its number.
const FRAME: &[u8] = br#"{"htype":"image","frame":"#;
const MSG_NUMBER: &[u8] = br#","type":"uint8","compression":"none","msg_number":"#;
const DIGITS: usize = 10;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Events, the first of which is the start of the series.
    pub(super) events: u64,
    /// Pixels of an image, bytes.
    pub(super) bytes: usize,
    pub(super) workers: usize,
    /// All events go to all workers; otherwise only the first does, and the others go to them in turn.
    pub(super) fan_out: bool,
    /// The workers take nothing until the source has sent all.
    pub(super) late: bool,
}

impl Load {
    /// Does `event` go to `worker`?
    pub(super) fn goes_to(&self, event: u64, worker: usize) -> bool {
        self.fan_out || event == 0 || self.turn(event) == worker
    }

    /// Worker of `event`.
    pub(super) fn turn(&self, event: u64) -> usize {
        (event.saturating_sub(1) % self.workers as u64) as usize
    }

    /// Entries of the `assigned` stream.
    pub(super) fn assignments(&self) -> Vec<String> {
        let one = |event| -> Value {
            let workers: Vec<_> =
                (0..self.workers).filter(|worker| self.goes_to(event, *worker)).map(name).collect();
            json!({ "event_number": event, "assignments": { STREAM: workers } })
        };
        let entry = |from: u64| {
            Value::from((from..self.events.min(from + ENTRY)).map(one).collect::<Vec<_>>()).to_string()
        };
        (0..self.events).step_by(ENTRY as usize).map(entry).collect()
    }

    /// Bytes of all pixels, as often as they arrive.
    pub(super) fn pixels(&self) -> u64 {
        let copies = if self.fan_out { self.workers as u64 } else { 1 };
        (self.events - 1) * self.bytes as u64 * copies
    }

    fn image(&self) -> String {
        let (frame, rest) = (String::from_utf8_lossy(FRAME), String::from_utf8_lossy(MSG_NUMBER));
        format!(r#"{frame}{FIRST},"shape":[{}]{rest}{FIRST}}}"#, self.bytes)
    }

    /// Pushes all events to the first client: signals `connected` and starts after `go`.
    pub(super) fn push(
        &self,
        listener: &TcpListener,
        connected: &Sender<()>,
        go: &Receiver<()>,
    ) -> Result<TcpStream> {
        let mut stream = accept(listener)?;
        greet(&mut stream, "PUSH", "")?;
        connected.send(())?;
        go.recv().context("the bench gives up")?;
        let mut start = Vec::new();
        put_frame(&mut start, br#"{"htype":"header","msg_number":0,"filename":"bench"}"#, false);
        stream.write_all(&start)?;
        let image = self.image();
        let mut block = Vec::new();
        let message = {
            put_frame(&mut block, image.as_bytes(), true);
            put_head(&mut block, self.bytes, false);
            let pixels = block.len();
            block.resize(pixels + self.bytes, 0x5a);
            block.len()
        };
        let many = (BATCH / message).max(1);
        block = block.repeat(many);
        let mut event = 1;
        while event < self.events {
            let count = (self.events - event).min(many as u64) as usize;
            for one in block[..count * message].chunks_exact_mut(message) {
                // The header before the text has two bytes.
                let text = &mut one[2..];
                write_number(&mut text[FRAME.len()..], FIRST + event - 1);
                let end = image.len() - 1 - DIGITS;
                write_number(&mut text[end..], FIRST + event);
                let pixels = message - self.bytes;
                if let Some(mark) = one[pixels..].first_chunk_mut() {
                    *mark = event.to_le_bytes();
                }
                event += 1;
            }
            stream.write_all(&block[..count * message])?;
        }
        // Closed by the caller, once all has arrived.
        Ok(stream)
    }
}

pub(super) fn name(worker: usize) -> String {
    format!("w{worker}")
}

/// Number of the frame that an image's text says; it is that of the event less one.
pub(super) fn frame_of(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(FRAME)?.get(..DIGITS)?;
    Some(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit.wrapping_sub(b'0'))) - FIRST)
}

fn write_number(out: &mut [u8], mut number: u64) {
    for digit in out[..DIGITS].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}
