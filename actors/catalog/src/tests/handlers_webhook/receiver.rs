//! A minimal webhook receiver that records requests and answers as the test says.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

use serde_json::Value;

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) line: String,
    /// Headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

/// Function that handles a request on its connection.
type Respond = dyn Fn(&mut TcpStream) -> io::Result<()> + Send + Sync;

/// A server on a free port. It stops listening when dropped.
pub(crate) struct Receiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    over: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Starts a server that answers with `status` and `body`.
    pub(crate) fn answering(status: u16, body: &[u8]) -> Self {
        let mut answer =
            format!("HTTP/1.1 {status} So\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        answer.extend_from_slice(body);
        Self::start(move |stream| stream.write_all(&answer))
    }

    /// Starts a server that runs `respond` after it has read a request.
    pub(crate) fn start(respond: impl Fn(&mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (received, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (kept, ended, respond) = (received.clone(), over.clone(), Arc::new(respond));
        let listener = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ended.load(SeqCst) {
                    break;
                }
                let (kept, respond) = (kept.clone(), respond.clone());
                thread::spawn(move || serve(stream, &kept, respond.as_ref()));
            }
        });
        Self { address, received, over, listener: Some(listener) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no test panics in it").clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        // A connection wakes the accept loop.
        let _ = TcpStream::connect(self.address);
        drop(self.listener.take().map(JoinHandle::join));
    }
}

fn serve(mut stream: TcpStream, kept: &Mutex<Vec<Received>>, respond: &Respond) {
    // A client may disconnect during its request.
    if let Ok(request) = read(&stream) {
        kept.lock().expect("no test panics in it").push(request);
        let _ = respond(&mut stream);
    }
}

fn read(stream: &TcpStream) -> io::Result<Received> {
    let mut reader = BufReader::new(stream);
    let mut next = || {
        let mut line = String::new();
        reader.read_line(&mut line).map(|_| line.trim_end().to_owned())
    };
    let line = next()?;
    let mut headers = BTreeMap::new();
    loop {
        let header = next()?;
        let Some((name, value)) = header.split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Received { line, headers, body: serde_json::from_slice(&body)? })
}
