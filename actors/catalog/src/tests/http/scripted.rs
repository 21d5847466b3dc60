//! A server that answers as a test says, and records the bytes of its requests.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// Returns the answer to a request (head and body), given its number on its connection, from 1;
/// None closes the connection.
type Script = dyn Fn(&str, usize) -> Option<Vec<u8>> + Send + Sync;

/// A server that runs a script. Its threads end with the test's process.
pub(crate) struct Scripted {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Scripted {
    pub(crate) fn start(script: impl Fn(&str, usize) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (script, requests): (Arc<Script>, Arc<Mutex<Vec<String>>>) = (Arc::new(script), Arc::default());
        let (recorded, open) = (requests.clone(), Arc::new(Mutex::new(Vec::new())));
        let kept = open.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                kept.lock().unwrap().push(stream.try_clone().unwrap());
                let (script, recorded) = (script.clone(), recorded.clone());
                thread::spawn(move || serve(stream, &*script, &recorded));
            }
        });
        Self { port, requests, open }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://127.0.0.1:{}/ermrest/catalog/1", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections, as a server does after an idle time-out.
    pub(crate) fn close_connections(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            // The client may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, script: &Script, requests: &Mutex<Vec<String>>) {
    for number in 1.. {
        let Some(request) = read(&mut stream) else { break };
        requests.lock().unwrap().push(request.clone());
        let Some(reply) = script(&request, number) else { break };
        if stream.write_all(&reply).is_err() {
            break;
        }
    }
    // Another handle keeps the socket open. The client may have closed it already.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Reads a request with its body; None at the end of the connection.
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

pub(crate) fn reply(status: &str, body: &str) -> Option<Vec<u8>> {
    Some(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}
