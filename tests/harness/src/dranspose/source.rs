//! Fake detectors: a Python program with the real libzmq that sends the messages of a test.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde_json::{Value, json};

use crate::DEADLINE;

/// One multipart message; a part is text or pseudo-random bytes.
#[derive(Debug, Clone)]
pub struct SourceMessage(Vec<Value>);

impl SourceMessage {
    /// Adds a part of `len` pseudo-random bytes.
    #[must_use]
    pub fn noise(mut self, len: usize, seed: u64) -> Self {
        self.0.push(json!({"len": len, "seed": seed}));
        self
    }

    /// Adds a part of text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(json!(text.into()));
        self
    }
}

/// Message with one part of JSON.
pub fn item(value: &Value) -> SourceMessage {
    SourceMessage(vec![json!(value.to_string())])
}

/// The start of a series of the STINS protocol.
pub fn header(filename: &str) -> SourceMessage {
    item(&json!({"htype": "header", "filename": filename, "msg_number": 0}))
}

/// Image `frame` of a series, `len` bytes of pixels.
pub fn image(filename: &str, frame: usize, len: usize) -> SourceMessage {
    let value = json!({
        "htype": "image", "frame": frame, "shape": [1, len], "type": "uint8", "compression": "none",
        "msg_number": frame + 1, "of": filename,
    });
    let seed = filename.bytes().fold(frame as u64 + 1, |seed, byte| seed * 31 + u64::from(byte));
    item(&value).noise(len, seed % 1_000_000)
}

/// The end of a series of `frames` images.
pub fn series_end(frames: usize) -> SourceMessage {
    item(&json!({"htype": "series_end", "msg_number": frames + 1}))
}

/// A whole series: start, `frames` images of `len` bytes, end.
pub fn series(filename: &str, frames: usize, len: usize) -> Vec<SourceMessage> {
    let images = (0..frames).map(|frame| image(filename, frame, len));
    [header(filename)].into_iter().chain(images).chain([series_end(frames)]).collect()
}

/// Messages that are invalid in every detector protocol.
pub fn malformed_messages() -> Vec<SourceMessage> {
    vec![
        SourceMessage(vec![]).noise(64, 1),
        SourceMessage(vec![]).text(""),
        item(&json!({"htype": "image", "frame": "no number"})).noise(10, 2),
        item(&json!(["a", "list"])),
        SourceMessage(vec![]).text("{\"htype\":\"image\","),
    ]
}

/// Running source. It is killed when dropped, with its unsent messages.
#[derive(Debug)]
pub struct Source {
    process: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<Value>,
    port: u64,
}

impl Source {
    /// Starts a PUSH source: each message goes to one ingester, and it waits while there is none.
    pub fn push() -> Self {
        Self::start("push", "*")
    }

    /// Starts a PUSH source at the [`Source::url`] of a former one.
    pub fn push_at(url: &str) -> Self {
        Self::start("push", url.rsplit(':').next().expect("a port"))
    }

    /// Starts a PUB source: messages go to all subscribers, and it never waits.
    pub fn publish() -> Self {
        Self::start("pub", "*")
    }

    /// Starts a PUB source at `port`.
    pub fn publish_at(port: u16) -> Self {
        Self::start("pub", &port.to_string())
    }

    fn start(kind: &str, port: &str) -> Self {
        let mut command = Command::new(super::python());
        command
            .arg(super::programs().join("source.py"))
            .args([kind, port])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().expect("Python starts");
        let (orders, output) = (process.stdin.take(), process.stdout.take().expect("piped"));
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let answer = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(answer).is_err() {
                    break;
                }
            }
        });
        let mut source = Self { process, orders, answers, port: 0 };
        source.port = source.answer()["port"].as_u64().expect("its port");
        source
    }

    /// Address of the socket.
    pub fn url(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }

    /// Sends `items`. Returns length and SHA-1 of each part of each message, as workers record them.
    ///
    /// # Panics
    /// If they are not received in time.
    pub fn send(&mut self, items: &[SourceMessage]) -> Vec<Value> {
        self.start_send(items);
        self.wait_sent()
    }

    /// Starts to send `items`; [`Source::wait_sent`] waits for the end.
    ///
    /// # Panics
    /// If the program has ended.
    pub fn start_send(&mut self, items: &[SourceMessage]) {
        let items: Vec<_> = items.iter().map(|item| &item.0).collect();
        self.order(&json!({ "send": items }));
    }

    /// Waits until the messages of [`Source::start_send`] are sent.
    ///
    /// # Panics
    /// If they are not received in time.
    pub fn wait_sent(&mut self) -> Vec<Value> {
        self.answer()["sent"].as_array().expect("what was sent").clone()
    }

    /// Waits for `count` new subscriptions to a [`Source::publish`].
    ///
    /// # Panics
    /// If they do not arrive in time.
    pub fn await_subscriptions(&mut self, count: usize) {
        self.order(&json!({ "subscriptions": count }));
        self.answer();
    }

    /// Waits for `count` new connections.
    ///
    /// # Panics
    /// As [`Source::await_subscriptions`].
    pub fn await_connections(&mut self, count: usize) {
        self.order(&json!({ "connections": count }));
        self.answer();
    }

    /// Sends a recorded stream: a file of CBOR arrays of byte strings, one per message.
    ///
    /// # Panics
    /// As [`Source::send`].
    pub fn play(&mut self, capture: &std::path::Path) -> Vec<Value> {
        self.order(&json!({ "play": capture }));
        self.wait_sent()
    }

    fn order(&mut self, order: &Value) {
        let orders = self.orders.as_mut().expect("held until the drop");
        writeln!(orders, "{order}").expect("the source takes orders");
    }

    fn answer(&mut self) -> Value {
        self.answers.recv_timeout(DEADLINE).expect("the source to be done: nobody takes what it sends")
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        drop(self.orders.take());
        // It may be blocked in a send.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
