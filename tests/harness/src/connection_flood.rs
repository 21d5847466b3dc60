//! Strangers at the admin endpoint: crowds of readers, and those who do not get on with it.

use std::{
    io::{self, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
};

use crate::EventReader;

/// What became of the readers of one wave.
#[derive(Default)]
pub struct Wave {
    /// Those who have a stream, and keep it until this is dropped.
    pub seated: Vec<EventReader<TcpStream>>,
    /// Those who were told to come again.
    pub refused: usize,
    /// Those who got neither.
    pub odd: usize,
}

/// `count` readers of events, nearly as many at once as have a connection: an answer that says no is a slow one. More than `seats`
/// of one thread are not taken: they would only wait.
///
/// # Panics
/// A reader's thread does.
pub fn wave(address: SocketAddr, count: usize, seats: usize) -> Wave {
    let left = AtomicUsize::new(count);
    let take = || left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
    let one = || {
        let mut wave = Wave::default();
        while wave.seated.len() <= seats && take() {
            match EventReader::tcp(address, "", &[]) {
                Ok(reader) if reader.status == 200 => wave.seated.push(reader),
                Ok(reader)
                    if reader.status == 503 && reader.head.to_lowercase().contains("retry-after: ") =>
                {
                    wave.refused += 1;
                }
                _ => wave.odd += 1,
            }
        }
        wave
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..160).map(|_| scope.spawn(one)).collect();
        threads.into_iter().fold(Wave::default(), |mut all, thread| {
            let wave = thread.join().expect("a wave that ends");
            all.seated.extend(wave.seated);
            all.refused += wave.refused;
            all.odd += wave.odd;
            all
        })
    })
}

/// Half a head, no head, half a body, and readers that do not read, 700 in all; each waits for a place in the backlog.
///
/// # Panics
/// One of them got no place in time.
pub fn open_stalled_connections(address: SocketAddr) -> Vec<TcpStream> {
    let stop = "POST /v1/actors/queue/fetcher_watcher/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{";
    let kinds = [
        ("GET /v1/tree HTTP/1.1\r\nHost: local", 150),
        ("", 150),
        (stop, 100),
        ("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n", 300),
    ];
    let texts = kinds.into_iter().flat_map(|(text, count)| std::iter::repeat_n(text, count));
    let knock = |text: &str| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(text.as_bytes())?;
        io::Result::Ok(stream)
    };
    texts.map(|text| knock(text).expect("a place in the backlog, in time")).collect()
}
