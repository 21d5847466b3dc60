//! A server that says whatever a test wants.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// What an impostor answers to a line; the empty line is the connection's beginning. None hangs up.
type Script = dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync;

/// What a server says that is none, or broken, or evil.
pub(crate) struct Impostor {
    port: u16,
}

impl Impostor {
    /// Answers every line, on every connection, as `script` says. Its threads end with the test's process.
    pub(crate) fn start(script: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, script): (_, Arc<Script>) = (listener.local_addr().unwrap().port(), Arc::new(script));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let script = script.clone();
                thread::spawn(move || converse(stream, &*script));
            }
        });
        Self { port }
    }

    pub(crate) fn url(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }
}

fn converse(stream: TcpStream, script: &Script) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while let Some(reply) = script(line.trim_end()) {
        line.clear();
        let said = reader.get_mut().write_all(&reply);
        if said.is_err() || !reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            return;
        }
    }
}

/// What an honest server says to the beginning of a connection, up to the first `INFO`; None for whatever comes then.
pub(crate) fn honest(line: &str) -> Option<Vec<u8>> {
    const INFO: &str = r#"{"faktory":{"queues":{},"sets":{"dead":0,"retries":0,"scheduled":0,"working":0},"total_processed":0}}"#;
    match line {
        "" => Some(b"+HI {\"v\":2}\r\n".to_vec()),
        "INFO" => Some(format!("${}\r\n{INFO}\r\n", INFO.len()).into_bytes()),
        hello if hello.starts_with("HELLO ") => Some(b"+OK\r\n".to_vec()),
        _ => None,
    }
}
