//! Detectors of our own: a Python program with the real libzmq that sends what it is told.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde_json::{Value, json};

use crate::DEADLINE;

/// One message: its parts, each a text, or so many bytes of noise.
#[derive(Debug, Clone)]
pub struct Item(Vec<Value>);

impl Item {
    /// With one more part: `len` bytes that depend on `seed`.
    #[must_use]
    pub fn noise(mut self, len: usize, seed: u64) -> Self {
        self.0.push(json!({"len": len, "seed": seed}));
        self
    }

    /// With one more part of text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(json!(text.into()));
        self
    }
}

/// A message with one part of JSON.
pub fn item(value: &Value) -> Item {
    Item(vec![json!(value.to_string())])
}

/// The start of a series of the STINS protocol.
pub fn header(filename: &str) -> Item {
    item(&json!({"htype": "header", "filename": filename, "msg_number": 0}))
}

/// Image `frame` of a series, `len` bytes of pixels.
pub fn image(filename: &str, frame: usize, len: usize) -> Item {
    let value = json!({
        "htype": "image", "frame": frame, "shape": [1, len], "type": "uint8", "compression": "none",
        "msg_number": frame + 1, "of": filename,
    });
    let seed = filename.bytes().fold(frame as u64 + 1, |seed, byte| seed * 31 + u64::from(byte));
    item(&value).noise(len, seed % 1_000_000)
}

/// The end of a series of `frames` images.
pub fn series_end(frames: usize) -> Item {
    item(&json!({"htype": "series_end", "msg_number": frames + 1}))
}

/// A whole series: start, `frames` images of `len` bytes, end.
pub fn series(filename: &str, frames: usize, len: usize) -> Vec<Item> {
    let images = (0..frames).map(|frame| image(filename, frame, len));
    [header(filename)].into_iter().chain(images).chain([series_end(frames)]).collect()
}

/// What no protocol of the detectors knows.
pub fn garbage() -> Vec<Item> {
    vec![
        Item(vec![]).noise(64, 1),
        Item(vec![]).text(""),
        item(&json!({"htype": "image", "frame": "no number"})).noise(10, 2),
        item(&json!(["a", "list"])),
        Item(vec![]).text("{\"htype\":\"image\","),
    ]
}

/// A running source. Dropped, it is gone with what it had not sent.
#[derive(Debug)]
pub struct Source {
    process: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<Value>,
    port: u64,
}

impl Source {
    /// One that hands each message to one ingester, and waits while there is none.
    pub fn push() -> Self {
        Self::start("push", "*")
    }

    /// As [`Source::push`], where another one was: at its [`Source::url`].
    pub fn push_at(url: &str) -> Self {
        Self::start("push", url.rsplit(':').next().expect("a port"))
    }

    /// One that tells all that listen, and does not wait.
    pub fn publish() -> Self {
        Self::start("pub", "*")
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
        let (told, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let answer = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if told.send(answer).is_err() {
                    break;
                }
            }
        });
        let mut source = Self { process, orders, answers, port: 0 };
        source.port = source.answer()["port"].as_u64().expect("its port");
        source
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }

    /// Sends `items`; for each what it was: for each part its length and SHA-1, as the workers note them.
    ///
    /// # Panics
    /// If nobody takes them in time.
    pub fn send(&mut self, items: &[Item]) -> Vec<Value> {
        self.begin(items);
        self.sent()
    }

    /// Begins to send `items`; [`Source::sent`] waits for the end.
    ///
    /// # Panics
    /// If the program has ended.
    pub fn begin(&mut self, items: &[Item]) {
        let items: Vec<_> = items.iter().map(|item| &item.0).collect();
        self.order(&json!({ "send": items }));
    }

    /// Waits until what was begun is sent.
    ///
    /// # Panics
    /// If nobody takes it in time.
    pub fn sent(&mut self) -> Vec<Value> {
        self.answer()["sent"].as_array().expect("what was sent").clone()
    }

    /// Waits for `count` new subscriptions of a [`Source::publish`].
    ///
    /// # Panics
    /// If they do not come in time.
    pub fn await_subscriptions(&mut self, count: usize) {
        self.order(&json!({ "subscriptions": count }));
        self.answer();
    }

    /// Plays a recorded stream: a file of CBOR arrays of byte strings, one per message.
    ///
    /// # Panics
    /// As [`Source::send`].
    pub fn play(&mut self, capture: &std::path::Path) -> Vec<Value> {
        self.order(&json!({ "play": capture }));
        self.sent()
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
        // It may be waiting for someone to take a message.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
