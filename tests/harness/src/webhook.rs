//! Webhook that records what is posted to it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

/// Request that a webhook has received.
#[derive(Debug, Clone)]
pub struct Post {
    /// Request line and headers.
    pub head: String,
    /// JSON.
    pub body: Value,
}

/// Webhook that answers with a status of its own.
#[derive(Debug)]
pub struct Webhook {
    /// Address.
    pub url: String,
    posts: Arc<Mutex<Vec<Post>>>,
    status: Arc<Mutex<&'static str>>,
}

impl Webhook {
    /// Starts a webhook at `path` that answers with `status`.
    ///
    /// # Panics
    /// If there is no port.
    pub fn start(path: &str, status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}{path}", listener.local_addr().expect("an address"));
        let (posts, status) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(status)));
        let (kept, answer) = (posts.clone(), status.clone());
        // Ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A killed sender may have sent a part of its request.
                if let Some((post, mut stream)) = read(stream) {
                    kept.lock().expect("no panic").push(post);
                    let status = *answer.lock().expect("no panic");
                    let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 8\r\n\r\nnot now\n");
                }
            }
        });
        Self { url, posts, status }
    }

    /// Requests so far.
    ///
    /// # Panics
    /// If the thread of the webhook has panicked.
    pub fn posts(&self) -> Vec<Post> {
        self.posts.lock().expect("no panic").clone()
    }

    /// Answers with `status` from now on.
    ///
    /// # Panics
    /// If the thread of the webhook has panicked.
    pub fn answer(&self, status: &'static str) {
        *self.status.lock().expect("no panic") = status;
    }
}

fn read(stream: TcpStream) -> Option<(Post, TcpStream)> {
    let (mut reader, mut head, mut length) = (BufReader::new(stream), String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((Post { head, body: serde_json::from_slice(&body).ok()? }, reader.into_inner()))
}
