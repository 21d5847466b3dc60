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

/// Status for a request.
type Answer = Box<dyn Fn(&Post) -> &'static str + Send>;

/// Webhook that answers with a status of its own.
pub struct Webhook {
    /// Address.
    pub url: String,
    posts: Arc<Mutex<Vec<Post>>>,
    answer: Arc<Mutex<Answer>>,
}

impl Webhook {
    /// Starts a webhook at `path` that answers with `status`.
    ///
    /// # Panics
    /// If there is no port.
    pub fn start(path: &str, status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}{path}", listener.local_addr().expect("an address"));
        let fixed: Answer = Box::new(move |_| status);
        let (posts, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(fixed)));
        let (kept, answers) = (posts.clone(), answer.clone());
        // Ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A killed sender may have sent a part of its request.
                if let Some((post, mut stream)) = read(stream) {
                    let status = answers.lock().expect("no panic")(&post);
                    kept.lock().expect("no panic").push(post);
                    let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 8\r\n\r\nnot now\n");
                }
            }
        });
        Self { url, posts, answer }
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
        self.answer_by(move |_| status);
    }

    /// Answers each request with the status that `answer` returns from now on.
    ///
    /// # Panics
    /// If the thread of the webhook has panicked.
    pub fn answer_by(&self, answer: impl Fn(&Post) -> &'static str + Send + 'static) {
        *self.answer.lock().expect("no panic") = Box::new(answer);
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
