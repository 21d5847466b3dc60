//! Proxy of a broker that refuses transient queues as RabbitMQ 4.3 does: with 541 INTERNAL_ERROR, for the
//! whole connection.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

/// Text of RabbitMQ 4.3.6.
const REASON: &[u8] = b"INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.\nIts use is not permitted per the configuration.";

/// Frame header of a method: type and channel.
const METHOD: u8 = 1;
const FRAME_END: u8 = 0xce;
/// Class and method of queue.declare.
const QUEUE_DECLARE: [u8; 4] = [0, 50, 0, 10];
/// Flags of queue.declare.
const PASSIVE: u8 = 1;
const DURABLE: u8 = 2;
const EXCLUSIVE: u8 = 4;

/// Proxy with the number of its refusals.
pub(super) struct RefusingBroker {
    port: u16,
    refusals: Arc<AtomicUsize>,
}

impl RefusingBroker {
    /// Forwards connections to the broker at `target`. The threads end with their connections, or with the
    /// process.
    pub(super) fn start(target: (String, u16)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let refusals = Arc::<AtomicUsize>::default();
        let counted = refusals.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(target.clone()).unwrap());
                let answers = Arc::new(Mutex::new(client.try_clone().unwrap()));
                let (from, to) = (server.try_clone().unwrap(), answers.clone());
                thread::spawn(move || forward(from, |frame| to.lock().unwrap().write_all(frame)));
                let refusals = counted.clone();
                thread::spawn(move || requests(client, server, &answers, &refusals));
            }
        });
        Self { port, refusals }
    }

    /// Address of the virtual host `name`.
    pub(super) fn url_of(&self, name: &str) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/{name}", self.port)
    }

    pub(super) fn refusals(&self) -> usize {
        self.refusals.load(SeqCst)
    }
}

/// Forwards the client's frames until it declares a transient queue.
fn requests(
    mut client: TcpStream,
    mut server: TcpStream,
    answers: &Mutex<TcpStream>,
    refusals: &AtomicUsize,
) -> io::Result<()> {
    let mut header = [0; 8];
    client.read_exact(&mut header)?;
    server.write_all(&header)?;
    let mut is_refused = false;
    let ended = forward(client, |frame| {
        if !is_refused && declares_transient(frame) {
            is_refused = true;
            refusals.fetch_add(1, SeqCst);
            return answers.lock().unwrap().write_all(&close());
        }
        // The broker would answer; its connection ends with the client's.
        if is_refused { Ok(()) } else { server.write_all(frame) }
    });
    server.shutdown(Shutdown::Both)?;
    ended
}

/// Reads frames until the end, each with header and end.
fn forward(mut from: TcpStream, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    loop {
        let mut frame = vec![0; 7];
        from.read_exact(&mut frame)?;
        let size = u32::from_be_bytes(frame[3..].try_into().unwrap()) as usize;
        frame.resize(7 + size + 1, 0);
        from.read_exact(&mut frame[7..])?;
        to(&frame)?;
    }
}

fn declares_transient(frame: &[u8]) -> bool {
    if frame[0] != METHOD || frame[7..11] != QUEUE_DECLARE {
        return false;
    }
    // A reserved number, the name and the flags follow.
    let name_length = usize::from(frame[13]);
    frame[14 + name_length] & (PASSIVE | DURABLE | EXCLUSIVE) == 0
}

/// Frame of connection.close.
fn close() -> Vec<u8> {
    let code = 541u16.to_be_bytes();
    let length = u8::try_from(REASON.len()).unwrap();
    let payload = [&[0, 10, 0, 50], &code[..], &[length], REASON, &QUEUE_DECLARE].concat();
    let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[METHOD, 0, 0], &size[..], &payload, &[FRAME_END]].concat()
}
