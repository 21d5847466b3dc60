//! Floods of connections to the admin endpoint: event readers, and connections that stall.

use std::{
    io::{self, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
};

use crate::EventReader;

/// Outcomes of the readers of one flood.
#[derive(Default)]
pub struct ReaderFlood {
    /// Open event streams; they are closed when dropped.
    pub streams: Vec<EventReader<TcpStream>>,
    /// Number of readers refused with 503 and `Retry-After`.
    pub refused: usize,
    /// Number of readers with any other outcome.
    pub failed: usize,
}

/// Connects `count` event readers from 160 threads.
///
/// A thread stops once it has more than `max_streams` streams: further readers would only wait.
///
/// # Panics
/// If a reader's thread panics.
pub fn open_event_readers(address: SocketAddr, count: usize, max_streams: usize) -> ReaderFlood {
    let left = AtomicUsize::new(count);
    let take = || left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
    let one = || {
        let mut flood = ReaderFlood::default();
        while flood.streams.len() <= max_streams && take() {
            match EventReader::tcp(address, "", &[]) {
                Ok(reader) if reader.status == 200 => flood.streams.push(reader),
                Ok(reader)
                    if reader.status == 503 && reader.head.to_lowercase().contains("retry-after: ") =>
                {
                    flood.refused += 1;
                }
                _ => flood.failed += 1,
            }
        }
        flood
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..160).map(|_| scope.spawn(one)).collect();
        threads.into_iter().fold(ReaderFlood::default(), |mut all, thread| {
            let flood = thread.join().expect("a reader thread");
            all.streams.extend(flood.streams);
            all.refused += flood.refused;
            all.failed += flood.failed;
            all
        })
    })
}

/// Opens 700 connections that stall: half a request head, no head, half a body, and event readers that never
/// read.
///
/// # Panics
/// If a connection fails.
pub fn open_stalled_connections(address: SocketAddr) -> Vec<TcpStream> {
    let stop = "POST /v1/actors/queue/fetcher_watcher/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{";
    let kinds = [
        ("GET /v1/tree HTTP/1.1\r\nHost: local", 150),
        ("", 150),
        (stop, 100),
        ("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n", 300),
    ];
    let texts = kinds.into_iter().flat_map(|(text, count)| std::iter::repeat_n(text, count));
    let open = |text: &str| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(text.as_bytes())?;
        io::Result::Ok(stream)
    };
    texts.map(|text| open(text).expect("a connection")).collect()
}
