//! `GET /v1/{path}/{name}`: exports.

use std::time::{Duration, Instant};

use orchestrator_admin::ProgramInfo;
use orchestrator_supervise::testing::eventually;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::site::{self, Site, pages_read};

/// Response to an export.
struct Export {
    status: u16,
    head: String,
    lines: Vec<Value>,
    /// True if the body has its last chunk.
    whole: bool,
}

fn request(query: &str, headers: &str) -> String {
    format!("GET /v1/demo/numbers?{query} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}

async fn connect(site: &Site, query: &str) -> TcpStream {
    let mut stream = TcpStream::connect(site.tcp).await.unwrap();
    stream.write_all(request(query, "").as_bytes()).await.unwrap();
    stream
}

async fn read(site: &Site, query: &str) -> Export {
    let mut answer = Vec::new();
    let mut stream = connect(site, query).await;
    // An abort may be a reset.
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("an end");
    parse(&String::from_utf8(answer).unwrap())
}

fn parse(answer: &str) -> Export {
    let (head, mut rest) = answer.split_once("\r\n\r\n").expect("a head");
    let (mut body, mut whole) = (String::new(), false);
    while let Some((size, chunk)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
        whole = size == 0;
        body += &chunk[..size];
        rest = &chunk[size + 2..];
    }
    let lines = body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
    Export { status, head: head.to_ascii_lowercase(), lines, whole }
}

fn readers(site: &Site) -> i64 {
    site.metric("export_clients")
}

#[test]
fn all_rows_are_streamed_as_lines() {
    site::run(|site| async move {
        let export = read(&site, "pages=12").await;
        assert_eq!((export.status, export.whole), (200, true));
        assert!(export.head.contains("application/x-ndjson"), "{}", export.head);
        let expected: Vec<Value> = (0..12_000).map(|n| json!({ "n": n })).collect();
        assert!(export.lines == expected, "{} lines", export.lines.len());
        let none = site.get("/v1/test/demo/numbers?pages=0").await;
        assert_eq!((none.status, none.body.as_str()), (200, ""));
        eventually("every slot is free", || readers(&site) == 0).await;
    });
}

#[test]
fn each_error_before_the_first_row_has_its_status() {
    site::run(|site| async move {
        let cases = [
            ("demo/numbers?pages=x", 400, "`pages` is not a number"),
            ("demo/numbers", 400, "`pages` is missing"),
            ("demo/rows", 404, "`demo` has no such export: it has numbers"),
            ("demo/store/numbers", 404, "unknown route"),
            ("demo/missing/numbers", 404, "unknown route"),
            ("demo/numbers?pages=1&fail=0", 409, "the store is away"),
        ];
        for (path, status, words) in cases {
            let (got, message) = site.get(&format!("/v1/{path}")).await.error();
            assert_eq!(got, status, "{path}: {message}");
            assert!(message.contains(words), "{path}: {message}");
        }
        assert_eq!(readers(&site), 0);
    });
}

#[test]
fn an_error_between_pages_is_the_last_line_and_aborts_the_body() {
    site::run(|site| async move {
        let mut export = read(&site, "pages=9&fail=3").await;
        assert_eq!((export.status, export.whole), (200, false), "the last chunk must be missing");
        let last = export.lines.pop().expect("a last line");
        assert_eq!(last, json!({ "error": "refused", "message": "the store is away" }));
        assert_eq!(export.lines.len(), 3_000);
    });
}

#[test]
fn a_stop_aborts_exports_at_once() {
    site::run(|site| async move {
        let mut stream = connect(&site, "pages=2&hang=1&reader=stop").await;
        eventually("the second page", || pages_read("stop") == 2).await;
        let began = Instant::now();
        assert_eq!(site.post("/v1/actors/admin/restart", "").await.status, 202);
        let mut answer = Vec::new();
        let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("an end");
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        let export = parse(&String::from_utf8(answer).unwrap());
        assert!(!export.whole);
        assert_eq!(export.lines.last().expect("a last line")["error"], "unavailable");
    });
}

#[test]
fn exports_are_limited_on_each_socket() {
    site::run(|site| async move {
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(connect(&site, "pages=2&hang=1&reader=limit").await);
        }
        eventually("four readers", || pages_read("limit") == 8).await;
        let reply = site.get("/v1/demo/numbers?pages=1").await;
        let (status, message) = reply.error();
        assert_eq!((status, reply.header("retry-after")), (503, Some("5")));
        assert!(message.contains("4 exports are being read"), "{message}");
        assert_eq!((readers(&site), site.metric("refused_export_limit")), (4, 1));
        // The other socket has its own slots, and other requests are served.
        assert_eq!(site.send_unix(&request("pages=0", "")).await.status, 200);
        assert_eq!(site.get("/v1/tree").await.status, 200);
    });
}

#[test]
fn a_client_that_disconnects_ends_its_export() {
    site::run(|site| async move {
        let mut stream = connect(&site, "pages=1000000&reader=leaves").await;
        let mut some = vec![0; 100_000];
        stream.read_exact(&mut some).await.unwrap();
        drop(stream);
        eventually("the slot is free", || readers(&site) == 0).await;
        let pages = pages_read("leaves");
        assert!(pages < 10_000, "{pages} pages were read for 100 kB");
    });
}

#[test]
fn pages_are_read_as_the_client_takes_them() {
    site::run(|site| async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(site.tcp).await.unwrap();
        stream.write_all(request("pages=1000000&reader=slow", "").as_bytes()).await.unwrap();
        // Until the time-out of unread data closes the connection.
        eventually("the first page", || pages_read("slow") > 0).await;
        eventually("the slot is free", || readers(&site) == 0).await;
        // A page has 11 kB at least; the buffers of a socket hold a few MB.
        let pages = pages_read("slow");
        assert!(pages < 2_000, "{pages} pages were read for a client that takes none");
        drop(stream);
    });
}

#[test]
fn a_viewer_may_read_and_others_may_not() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "viewer eva 0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let change = |config: &mut orchestrator_admin::AdminConfig| config.tokens_file = tokens;
    site::run_with(change, ProgramInfo::default(), |site| async move {
        let ask = |headers: &str| request("pages=0", headers);
        let (status, _) = site.send(&ask("")).await.error();
        assert_eq!(status, 401);
        let viewer = "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n";
        assert_eq!(site.send(&ask(viewer)).await.status, 200);
        // The same token allows no command.
        let refused = "POST /v1/actors/demo/source/pause HTTP/1.1\r\nHost: localhost\r\n";
        assert_eq!(site.send(&format!("{refused}{viewer}\r\n")).await.error().0, 403);
    });
}
