//! Server whose replies a test defines.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// Reply to a line; the empty line is the start of the connection. `None` disconnects.
type Script = dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync;

/// Server that sends invalid or hostile replies.
pub(crate) struct ScriptedServer {
    port: u16,
}

impl ScriptedServer {
    /// Replies to every line of every connection as `script` says. The threads end with the test's process.
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

/// Reply of a correct server from the start of a connection to the first `INFO`, and `None` after that.
pub(crate) fn correct_reply(line: &str) -> Option<Vec<u8>> {
    const INFO: &str = r#"{"faktory":{"queues":{},"sets":{"dead":0,"retries":0,"scheduled":0,"working":0},"total_processed":0}}"#;
    match line {
        "" => Some(b"+HI {\"v\":2}\r\n".to_vec()),
        "INFO" => Some(format!("${}\r\n{INFO}\r\n", INFO.len()).into_bytes()),
        hello if hello.starts_with("HELLO ") => Some(b"+OK\r\n".to_vec()),
        _ => None,
    }
}
