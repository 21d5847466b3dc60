//! A server that answers whatever a test wants, and keeps the bytes that it was sent.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// What is answered to a request (head and body as they came) which is the given one of its connection, from 1; None hangs up.
type Script = dyn Fn(&str, usize) -> Option<Vec<u8>> + Send + Sync;

/// A server of the script. Its threads end with the test's process.
pub(crate) struct Scripted {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Scripted {
    pub(crate) fn start(script: impl Fn(&str, usize) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (script, heard): (Arc<Script>, Arc<Mutex<Vec<String>>>) = (Arc::new(script), Arc::default());
        let (ears, open) = (heard.clone(), Arc::new(Mutex::new(Vec::new())));
        let kept = open.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                kept.lock().unwrap().push(stream.try_clone().unwrap());
                let (script, ears) = (script.clone(), ears.clone());
                thread::spawn(move || converse(stream, &*script, &ears));
            }
        });
        Self { port, heard, open }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://127.0.0.1:{}/ermrest/catalog/1", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections, as a server does with those that were idle for too long.
    pub(crate) fn hang_up(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            // The other end may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The requests so far, as they came.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn converse(mut stream: TcpStream, script: &Script, heard: &Mutex<Vec<String>>) {
    for number in 1.. {
        let Some(request) = read(&mut stream) else { break };
        heard.lock().unwrap().push(request.clone());
        let Some(reply) = script(&request, number) else { break };
        if stream.write_all(&reply).is_err() {
            break;
        }
    }
    // Another handle of it is kept. The other end may have closed it already.
    let _ = stream.shutdown(Shutdown::Both);
}

/// A request with a body as long as its head says; None at the connection's end.
fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(length) if length > 0 => bytes.extend_from_slice(&piece[..length]),
            _ => return None,
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    let mut rest = vec![0; (end + length).saturating_sub(bytes.len())];
    stream.read_exact(&mut rest).ok()?;
    bytes.extend_from_slice(&rest);
    Some(String::from_utf8(bytes).unwrap())
}

/// An answer with a body.
pub(crate) fn reply(status: &str, body: &str) -> Option<Vec<u8>> {
    Some(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}
