//! Servers that violate HTTP or ERMrest's API. Memory stays bounded, the rule reports the reason,
//! the other catalog's rule continues, and the first one recovers with its server.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, eventually, http};
use serde_json::{Value, json};

use super::BINARY;

/// Maximum growth of the process, in bytes: twice a body of 64 MiB, its decoded rows (256 MiB), and
/// 64 MiB.
const GROWTH_MAX: u64 = 448 << 20;

type Answer = Box<dyn Fn(&mut TcpStream) -> io::Result<()> + Send + Sync>;

/// A server with a configurable answer; without one it forwards to a real server.
struct Peer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    answer: Option<Arc<Answer>>,
    open: Vec<TcpStream>,
}

impl Peer {
    fn start(real: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, state) = (listener.local_addr().expect("an address"), Arc::<Mutex<State>>::default());
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = {
                    let mut state = shared.lock().expect("it is not poisoned");
                    state.open.push(stream.try_clone().expect("a handle"));
                    state.answer.clone()
                };
                thread::spawn(move || match answer {
                    Some(answer) => hostile(stream, &answer),
                    None => forward(stream, real),
                });
            }
        });
        Self { address, state }
    }

    /// Closes all connections and sets the answer; None forwards to the real server.
    fn set_answer(&self, answer: Option<Answer>) {
        let mut state = self.state.lock().expect("it is not poisoned");
        state.answer = answer.map(Arc::new);
        state.open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

fn hostile(mut stream: TcpStream, answer: &Answer) {
    // The client may close the connection at any point.
    let _ = request(&mut stream).and_then(|()| answer(&mut stream));
    let _ = stream.shutdown(Shutdown::Both);
}

fn forward(near: TcpStream, real: SocketAddr) {
    let Ok(far) = TcpStream::connect(real) else { return };
    let twin = |stream: &TcpStream| stream.try_clone().expect("a handle");
    for (mut from, mut to) in [(twin(&near), twin(&far)), (twin(&far), twin(&near))] {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}

/// Reads a request with its body.
fn request(stream: &mut TcpStream) -> io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    stream.read_exact(&mut vec![0; length.unwrap_or(0)])
}

/// A complete answer.
fn whole(status: &str, headers: &str, body: impl Into<Vec<u8>>) -> Answer {
    let body = body.into();
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    Box::new(move |stream| {
        stream.write_all(head.as_bytes())?;
        stream.write_all(&body)
    })
}

fn rows(body: impl Into<Vec<u8>>) -> Answer {
    whole("200 OK", "ETag: \"1\"\r\n", body)
}

/// `first`, then `again` until the client closes the connection.
fn endless(first: &str, again: impl Into<Vec<u8>>) -> Answer {
    let (first, again) = (first.to_owned(), again.into());
    Box::new(move |stream| {
        stream.write_all(first.as_bytes())?;
        loop {
            stream.write_all(&again)?;
        }
    })
}

/// Text of `length` repeated bytes between `before` and `after`.
fn long(before: &str, piece: &str, length: usize, after: &str) -> String {
    [before, &piece.repeat(length / piece.len()), after].concat()
}

const MIB: usize = 1 << 20;

/// Malformed bodies, with parts of the rule's reason.
fn bodies() -> Vec<(&'static str, Answer, &'static [&'static str])> {
    const NO_ROWS: &[&str] = &["is no JSON array of rows"];
    const LARGE: &[&str] = &["would take more than"];
    vec![
        ("an object", rows("{\"rows\":[]}"), NO_ROWS),
        ("numbers", rows("[1,2]"), NO_ROWS),
        ("null", rows("null"), NO_ROWS),
        ("nothing", rows(""), NO_ROWS),
        ("half", rows("[{\"id\":1},{\"i"), NO_ROWS),
        ("invalid UTF-8", rows(b"[{\"id\":\"\xff\xfe\"}]".to_vec()), NO_ROWS),
        ("arrays in arrays", rows(long("[{\"id\":", "[", MIB, "")), NO_ROWS),
        ("objects in objects", rows(long("[", "{\"a\":", MIB, "")), NO_ROWS),
        ("a giant string", rows(long("\"", "A\u{202e}", 48 * MIB, "\"")), NO_ROWS),
        ("millions of rows", rows(long("[", "{\"a\":1},", 60 * MIB, "{}]")), LARGE),
        ("millions of values", rows(long("[{\"a\":[", "0,", 60 * MIB, "0]}]")), LARGE),
    ]
}

/// Answers that violate HTTP or ERMrest's API, with parts of the rule's reason.
fn answers() -> Vec<(&'static str, Answer, &'static [&'static str])> {
    const ENDLESS: &[&str] = &["larger than", "none within"];
    const NO_HTTP: &[&str] = &["no answer to"];
    let text = long("\u{1b}[2J\u{202e}", "x", 3 * MIB, "");
    let elsewhere = format!("Location: http://elsewhere/{}\r\n", "y".repeat(100_000));
    let headers = (0..5_000).fold(String::new(), |all, number| format!("{all}X-{number}: z\r\n"));
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(65_536));
    vec![
        ("a long complaint", whole("400 Bad", "", text.clone()), &["400: \\u{1b}[2J\\u{202e}xxx"]),
        ("a long outage", whole("500 Broken", "", text), &["500: \\u{1b}[2J\\u{202e}xxx"]),
        ("a redirect", whole("302 Found", &elsewhere, ""), &["it redirects to http://elsewhere/yyy"]),
        ("chunks", endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk), ENDLESS),
        (
            "a body",
            endless("HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", " ".repeat(65_536)),
            ENDLESS,
        ),
        ("a body to the end", endless("HTTP/1.1 200 OK\r\n\r\n", " ".repeat(65_536)), ENDLESS),
        ("1xx", endless("", "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n".repeat(1_000)), NO_HTTP),
        ("headers", whole("200 OK", &headers, "[]"), NO_HTTP),
        ("headers without end", endless("HTTP/1.1 200 OK\r\n", "X: y\r\n".repeat(1_000)), NO_HTTP),
        ("a header without end", endless("HTTP/1.1 200 OK\r\nX: ", "y".repeat(65_536)), NO_HTTP),
        ("a status without end", endless("HTTP/1.1 200 ", "y".repeat(65_536)), NO_HTTP),
        ("two lengths", whole("200 OK", "Content-Length: 7\r\n", "[]"), NO_HTTP),
        ("another protocol", endless("SSH-2.0-OpenSSH_9.9\r\n", "\u{1}"), NO_HTTP),
        ("no answer", Box::new(|stream| stream.read_exact(&mut [0])), NO_HTTP),
        ("the end", Box::new(|_| Ok(())), NO_HTTP),
    ]
}

/// A rule whose server can be hostile, and a rule of another catalog.
struct Pair {
    server: Ermrest,
    peer: Peer,
    site: CatalogEnv,
    next: u32,
}

impl Pair {
    fn new() -> Self {
        let server = Ermrest::start(&[]);
        let peer = Peer::start(([127, 0, 0, 1], server.port()).into());
        let url = format!("http://{}/ermrest/catalog/1", peer.address);
        let other = FULL_RULE.replace("\"Foo\"", "\"Other\"");
        let well = format!(
            "[[catalog]]\nname = \"well\"\nbase = {:?}\namqp = \"\"\npoll_without_notices_secs = 0.25\n{other}\
             [links]\nretry_max_ms = 1000\n",
            server.url()
        );
        let site = CatalogEnv::at(BINARY, &url).key("read_timeout_ms = 4000").rule(FULL_RULE).rule(&well);
        Self { server, peer, site, next: 0 }
    }

    /// Inserts a row and waits until it is complete.
    fn row(&mut self, table: &str, case: &str) {
        self.next += 1;
        let id = self.next;
        self.server.insert(table, &json!([{ "id": id, "state": "actionable" }]), "");
        eventually(&format!("{case}: the row of {table} to be complete"), || {
            self.server.rows(table).iter().any(|row| row["id"] == id && row["state"] == "complete")
        });
    }

    /// None while the rule parses an answer.
    fn rule(&self) -> Option<Value> {
        let (socket, url) =
            (self.site.base().admin_socket(), "/v1/consoles/catalog/lab/catalog_poller/status");
        let reply = http(&socket, "POST", url, &["Content-Type: application/json"], "{}");
        (reply.status == 200).then(|| reply.json()["rules"]["work"].clone())
    }

    /// Empty if the rule works.
    fn reason(&self) -> Option<String> {
        Some(self.rule()?["reason"].as_str().unwrap_or_default().to_owned())
    }
}

fn assert_rejected_and_recovered(cases: Vec<(&'static str, Answer, &'static [&'static str])>) {
    let mut pair = Pair::new();
    let mut instance = pair.site.start();
    pair.row("Foo", "before");
    let before = instance.memory("VmRSS");
    for (case, answer, wanted) in cases {
        pair.peer.set_answer(Some(answer));
        let mut last = String::new();
        eventually(&format!("{case}: the rule to say why"), || {
            last = pair.reason().unwrap_or_default();
            wanted.iter().any(|wanted| last.contains(wanted))
        });
        assert!(last.len() <= 600 && !last.contains('\u{1b}'), "{case}: {last}");
        pair.row("Other", case);
        pair.peer.set_answer(None);
        pair.row("Foo", case);
        eventually(&format!("{case}: the reason to be gone"), || {
            pair.reason().is_some_and(|reason| reason.is_empty())
        });
        let grown = instance.memory("VmHWM").saturating_sub(before);
        eprintln!("{case}: {last} ({} MiB)", grown >> 20);
        assert!(grown < GROWTH_MAX, "{case}: {grown} bytes");
    }
    assert!(instance.ended().is_none());
    let log = pair.site.base().log();
    // Each look at the status above is audited, and their number depends on the machine.
    let logged: usize = log.lines().filter(|line| !line.contains(": audit who=")).map(str::len).sum();
    assert!(logged < 100_000, "{logged} bytes");
    assert!(instance.terminate().success());
}

#[test]
fn malformed_bodies_are_rejected_and_the_rule_recovers() {
    assert_rejected_and_recovered(bodies());
}

#[test]
fn answers_that_violate_http_are_rejected_and_the_rule_recovers() {
    assert_rejected_and_recovered(answers());
}

/// Of 100,000 rows, 10 are claimed at a time. The answer to each write repeats all rows.
#[test]
fn rows_beyond_the_limit_are_not_claimed() {
    let mut pair = Pair::new();
    let instance = pair.site.start();
    pair.row("Foo", "before");
    let before = instance.memory("VmRSS");
    let all: Vec<String> = (0..100_000)
        .map(|id| format!("{{\"RID\":\"{id}\",\"RMT\":\"1\",\"id\":{id},\"state\":\"actionable\"}}"))
        .collect();
    // Without an ETag.
    pair.peer.set_answer(Some(whole("200 OK", "", format!("[{}]", all.join(",")))));
    eventually("rows to be claimed", || {
        let Some(rule) = pair.rule() else { return false };
        assert!(rule["in_progress"].as_u64() <= Some(100), "{rule}");
        rule["claimed"].as_u64() > Some(100)
    });
    pair.row("Other", "too many rows");
    pair.peer.set_answer(None);
    pair.row("Foo", "too many rows");
    let grown = instance.memory("VmHWM").saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes");
    assert!(instance.terminate().success());
}
