//! The calibration K: a relay that takes messages from the source and hands them to the workers in turn, with
//! a header in front, and nothing else. One thread, blocking sockets, one reused buffer, whole messages, one
//! write for what has come for a worker.

use std::{
    io::{IoSlice, Read, Write},
    net::{TcpListener, TcpStream},
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::wire::{Head, accept, dial, greet, put_head};

/// Room for what is read at once, bytes.
const BLOCK: usize = 256 << 10;
/// Variable part of a header: the number.
const REST: &str =
    r#","streams":{"eiger":{"typ":"STINS","length":2}},"created_at":"2026-11-20T12:45:03.392521Z"}"#;

/// Where it is between.
#[derive(Debug, Args)]
pub(crate) struct Relay {
    /// Port of the source
    #[arg(long)]
    pub(super) upstream: u16,
    /// Port for the workers
    #[arg(long)]
    pub(super) listen: u16,
    #[arg(long)]
    pub(super) workers: usize,
    /// Each message goes to all
    #[arg(long)]
    pub(super) fan_out: bool,
}

impl Relay {
    /// Waits for the workers, then relays until the source closes.
    pub(crate) fn run(&self) -> Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", self.listen))?;
        let mut sinks = Vec::new();
        for _ in 0..self.workers {
            let mut sink = accept(&listener)?;
            let name = greet(&mut sink, "ROUTER", "")?;
            sinks.push((name, sink));
        }
        sinks.sort_by(|one, other| one.0.cmp(&other.0));
        let mut source = dial(self.upstream)?;
        greet(&mut source, "PULL", "")?;
        let mut relaying =
            Relaying { sinks: sinks.into_iter().map(|(_, sink)| (sink, Vec::new())).collect(), event: 0 };
        let mut block = vec![0; BLOCK];
        let mut filled = 0;
        loop {
            let mut at = 0;
            let least = loop {
                match whole(&block[at..filled]) {
                    Ok(len) => {
                        self.forward(&block[at..at + len], &mut relaying)?;
                        at += len;
                    }
                    Err(least) => break least,
                }
            };
            relaying.flush()?;
            block.copy_within(at..filled, 0);
            filled -= at;
            // Of a long message no more than its end: nothing has to be moved then.
            let wanted = BLOCK.max(least);
            if block.len() < wanted {
                block.resize(wanted, 0);
            }
            let count = source.read(&mut block[filled..wanted]).context("nothing comes from the source")?;
            if count == 0 {
                ensure!(filled == 0, "the source ends within a message");
                return Ok(());
            }
            filled += count;
        }
    }

    fn forward(&self, message: &[u8], relaying: &mut Relaying) -> Result<()> {
        let event = relaying.event;
        relaying.event += 1;
        let workers = relaying.sinks.len();
        if self.fan_out || event == 0 {
            (0..workers).try_for_each(|worker| relaying.put(worker, event, message))
        } else {
            relaying.put((event - 1) % workers, event, message)
        }
    }
}

struct Relaying {
    /// Each worker's connection, and what is gathered for it.
    sinks: Vec<(TcpStream, Vec<u8>)>,
    event: usize,
}

impl Relaying {
    fn put(&mut self, worker: usize, event: usize, message: &[u8]) -> Result<()> {
        let (stream, out) = &mut self.sinks[worker];
        let before = out.len();
        put_head(out, 0, true);
        write!(out, r#"{{"event_number":{event}{REST}"#)?;
        // A header has fewer than 256 bytes.
        out[before + 1] = u8::try_from(out.len() - before - 2)?;
        if message.len() < BLOCK / 2 {
            out.extend(message);
            return Ok(());
        }
        let mut slices = [IoSlice::new(out), IoSlice::new(message)];
        let mut left = &mut slices[..];
        while !left.is_empty() {
            let written = stream.write_vectored(left)?;
            IoSlice::advance_slices(&mut left, written);
        }
        out.clear();
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        for (stream, out) in &mut self.sinks {
            if !out.is_empty() {
                stream.write_all(out)?;
                out.clear();
            }
        }
        Ok(())
    }
}

/// Length of the message that `bytes` begin with, or else how long it is at least.
fn whole(bytes: &[u8]) -> Result<usize, usize> {
    let mut at = 0;
    loop {
        let head = bytes.get(at..).and_then(Head::read).ok_or(at + 1)?;
        at += head.head + head.body;
        if !head.more {
            return if at <= bytes.len() { Ok(at) } else { Err(at) };
        }
    }
}
