//! Webhook handlers, over real connections.

mod receiver;

use std::{
    fs,
    io::Write,
    net::{Shutdown, TcpListener},
    sync::{Mutex, mpsc::channel},
    time::Duration,
};

use futures_util::future::join_all;
use orchestrator_catalog_rules::rows::Row;
use orchestrator_edge::http::{Target, Webhook, plain_headers};
use orchestrator_harness::{Ermrest, Faktory};
use serde_json::{Value, json};

use receiver::Receiver;

use crate::handler::{Failure, Handler, Outcome, Task};

fn webhook(url: &str) -> Webhook {
    Webhook {
        target: Target::new(url, None).expect("a url"),
        headers: plain_headers(["X-Site: beamline"]).expect("a header"),
        headers_file: None,
        timeout: Duration::from_secs(60),
        answer_max: Some(1 << 20),
        error_max: 200,
    }
}

fn row(value: Value) -> Row {
    serde_json::from_value(value).expect("an object")
}

fn task(value: Value) -> Task {
    Task {
        rule: "measure".to_owned(),
        row: row(value),
        token: Some("me/7".to_owned()),
        former_token: None,
        attempt: Some(2),
    }
}

async fn post(receiver: &Receiver) -> Outcome {
    webhook(&receiver.url()).handle(task(json!({"RID": "1-A"}))).await
}

#[tokio::test]
async fn a_request_carries_the_row_and_its_idempotency_key() {
    let receiver = Receiver::answering(200, br#"{"size": 3}"#);
    let url = format!("{}/run;now?a=b&c", receiver.url());
    let values = json!({"RID": "1-A", "text": "\u{e4}\n"});
    let outcome = webhook(&url).handle(task(values.clone())).await;
    assert_eq!(outcome, Outcome::Done(row(json!({"size": 3}))));
    let unknown = Task { token: None, attempt: None, ..task(json!({})) };
    webhook(&url).handle(unknown).await;
    let [request, without] = receiver.received().try_into().expect("two requests");
    assert_eq!(request.line, "POST /run;now?a=b&c HTTP/1.1");
    assert_eq!(request.body, json!({"rule": "measure", "token": "me/7", "attempt": 2, "row": values}));
    let header = |name: &str| request.headers.get(name).map(String::as_str);
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(header("idempotency-key"), Some("me/7/1-A"));
    assert_eq!(header("x-site"), Some("beamline"));
    assert_eq!(header("host"), receiver.url().strip_prefix("http://"));
    assert!(header("user-agent").is_some_and(|agent| agent.starts_with("orchestrator/")));
    assert_eq!(without.body, json!({"rule": "measure", "token": null, "attempt": null, "row": {}}));
    assert!(!without.headers.contains_key("idempotency-key"), "nothing tells this row from others");
}

#[tokio::test]
async fn secret_headers_are_read_for_each_request() {
    let receiver = Receiver::answering(204, b"");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let webhook = Webhook { headers_file: Some(file.path().to_owned()), ..webhook(&receiver.url()) };
    for secret in ["Bearer first", "Bearer second"] {
        fs::write(file.path(), format!("Authorization: {secret}\n")).expect("write");
        assert_eq!(webhook.handle(task(json!({}))).await, Outcome::Done(Row::new()));
        let last = receiver.received().pop().expect("a request");
        assert_eq!(last.headers.get("authorization").map(String::as_str), Some(secret));
    }
    drop(file);
    let Outcome::Later(text) = webhook.handle(task(json!({}))).await else { panic!("there is no file") };
    assert!(text.contains("headers_file = /"), "{text}");
    assert_eq!(receiver.received().len(), 2, "nothing is sent without them");
}

#[tokio::test]
async fn the_status_gives_the_outcome_and_the_body_the_reason() {
    type Make = fn(String) -> Outcome;
    for (status, make) in [
        (400, Outcome::failed as Make),
        (403, Outcome::failed),
        (404, Outcome::failed),
        (408, Outcome::Later),
        (410, Outcome::dead),
        (422, Outcome::dead),
        (425, Outcome::Later),
        (429, Outcome::Later),
        (500, Outcome::Later),
        (503, Outcome::Later),
    ] {
        let receiver = Receiver::answering(status, b"no luck\x1b\n");
        let text = format!("{}/ answered with status {status}: no luck\\u{{1b}}", receiver.url());
        assert_eq!(post(&receiver).await, make(text));
    }
    for body in [b"".as_slice(), b"{}", b"\n"] {
        assert_eq!(post(&Receiver::answering(201, body)).await, Outcome::Done(Row::new()));
    }
    let Outcome::Later(text) = post(&Receiver::answering(302, b"over there")).await else { panic!("moved") };
    assert!(text.contains("write the new address into handler.url"), "{text}");
    let Outcome::Failed(Failure { error: text, .. }) = post(&Receiver::answering(200, b"OK")).await else {
        panic!("no object")
    };
    assert!(text.contains("answered `OK`, which is no JSON"), "{text}");
}

#[tokio::test]
async fn answers_are_bounded() {
    let Outcome::Failed(Failure { error: text, .. }) =
        post(&Receiver::answering(200, &vec![b' '; (1 << 20) + 1])).await
    else {
        panic!("it is too long")
    };
    assert!(text.contains("answered with more than 1048576 bytes"), "{text}");
    let exact = [b"{}".as_slice(), &vec![b' '; (1 << 20) - 2]].concat();
    assert_eq!(post(&Receiver::answering(200, &exact)).await, Outcome::Done(Row::new()));
    let Outcome::Failed(Failure { error: text, .. }) =
        post(&Receiver::answering(400, &vec![b'x'; 1 << 20])).await
    else {
        panic!("it failed")
    };
    assert!(text.len() < 400, "{text}");
    // An endless body.
    let endless = Receiver::start(|stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        loop {
            stream.write_all(&[b' '; 65_536])?;
        }
    });
    assert!(matches!(post(&endless).await, Outcome::Failed(_)));
}

#[tokio::test]
async fn an_unavailable_receiver_is_retried_later() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let outcome = webhook(&format!("http://{free}/secret?of=us")).handle(task(json!({}))).await;
    let Outcome::Later(text) = outcome else { panic!("{outcome:?}") };
    assert!(text.starts_with(&format!("cannot connect to http://{free}/***: ")), "{text}");
    assert!(!text.contains("of=us"), "{text}");
    let nowhere = webhook("http://no-such-host.invalid/").handle(task(json!({}))).await;
    assert!(matches!(nowhere, Outcome::Later(_)), "{nowhere:?}");
}

#[tokio::test]
async fn a_lost_answer_counts_as_an_attempt() {
    // A row that crashes the receiver must not be retried forever.
    let falls = Receiver::start(|stream| stream.shutdown(Shutdown::Both));
    let Outcome::Failed(Failure { error: text, .. }) = post(&falls).await else { panic!("no answer") };
    assert!(text.contains("which may have done it"), "{text}");
    let cut = Receiver::start(|stream| stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"));
    assert!(matches!(post(&cut).await, Outcome::Failed(_)), "half an answer is none");
    let refused =
        Receiver::start(|stream| stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nbusy"));
    let Outcome::Later(text) = post(&refused).await else { panic!("it has said no") };
    assert!(text.ends_with("answered with status 503: busy"), "{text}");
    let odd = Receiver::start(|stream| stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n"));
    assert!(matches!(post(&odd).await, Outcome::Failed(_)));
}

#[tokio::test]
async fn a_late_answer_fails_at_the_time_out() {
    // The receiver keeps the connection open until the test ends.
    let (over, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let silent = Receiver::start(move |_| {
        let _ = wait.lock().expect("one request").recv();
        Ok(())
    });
    let webhook = Webhook { timeout: Duration::from_millis(300), ..webhook(&silent.url()) };
    let Outcome::Failed(Failure { error: text, .. }) = webhook.handle(task(json!({}))).await else {
        panic!("no answer")
    };
    assert!(text.contains("within 300ms, which may have done it"), "{text}");
    drop(over);
}

#[tokio::test]
async fn the_certificate_of_a_receiver_is_verified() {
    // Any server that answers a POST with an object will do.
    let server = Ermrest::start_tls(&[]);
    let url = format!("https://localhost:{}/_log", server.port());
    let target = Target::new(&url, Some(&Faktory::ca_file())).expect("a url");
    let trusting = Webhook { target, ..webhook("http://localhost") };
    let outcome = trusting.handle(task(json!({"RID": "1-A"}))).await;
    assert!(matches!(&outcome, Outcome::Done(fields) if fields.contains_key("connections")), "{outcome:?}");
    let Outcome::Later(text) = webhook(&url).handle(task(json!({}))).await else {
        panic!("it is signed by nobody of the public web")
    };
    assert!(
        text.starts_with(&format!(
            "cannot connect to https://localhost:{}/***: TLS: invalid peer certificate",
            server.port()
        )),
        "{text}"
    );
}

#[tokio::test]
async fn two_hundred_concurrent_requests_and_a_large_row_are_answered() {
    let receiver = Receiver::answering(200, br#"{"ok": true}"#);
    let webhook = webhook(&receiver.url());
    let tasks = (0..200).map(|number| webhook.handle(task(json!({"RID": number.to_string()}))));
    for outcome in join_all(tasks).await {
        assert_eq!(outcome, Outcome::Done(row(json!({"ok": true}))));
    }
    let large = json!({"RID": "1-A", "text": "x".repeat(1 << 20)});
    assert_eq!(webhook.handle(task(large.clone())).await, Outcome::Done(row(json!({"ok": true}))));
    let received = receiver.received();
    assert_eq!((received.len(), &received[200].body["row"]), (201, &large));
}
