//! Listings of relations, entities and locations, by the commands and over HTTP.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    os::unix::net::UnixStream,
    time::Duration,
};

use orchestrator_harness::{Postgres, ProvenanceEnv, eventually, http, sha1_of};
use serde_json::{Value, json};

const FAILURE: i32 = 1;
const NOT_FOUND: i32 = 4;
const REFUSED: i32 = 5;

fn env() -> ProvenanceEnv {
    ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

/// Environment with a database of the original's tables in `postgres`.
fn postgres_env(postgres: &Postgres, name: &str) -> (ProvenanceEnv, String) {
    let dsn = postgres.create_database(name);
    let env = env().set("provenance.writer.kind=postgres").set(&format!("provenance.postgres.dsn={dsn}"));
    assert_eq!(env.base().cli(&["provenance", "init", "--dsn", &dsn]).0, 0);
    (env, dsn)
}

/// No line may be repeated.
fn rows(text: &str) -> BTreeSet<String> {
    let rows: Vec<String> = text.lines().map(str::to_owned).collect();
    let set: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(set.len(), rows.len(), "repeated rows");
    set
}

/// Runs `orchestrator provenance ARGUMENTS`, which must succeed, and returns its rows.
fn list(env: &ProvenanceEnv, arguments: &[&str]) -> BTreeSet<String> {
    let (code, out, err) = env.base().cli(&[&["provenance"], arguments].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}: {}", env.base().log());
    rows(&out)
}

#[test]
fn commands_and_routes_list_the_stored_rows() {
    let env = env();
    let instance = env.start();
    let [one, two] = [0, 1].map(|number| sha1_of(0, number));
    let [first, second] = [0, 1].map(|number| sha1_of(2, number));
    let relation = |src: &str, dst: &str, path: Value| {
        let mut row = json!({ "add": "content_in_revision", "src": src, "dst": dst });
        row.as_object_mut().expect("an object").extend(path.as_object().expect("an object").clone());
        row
    };
    let (plain, odd) = (json!({ "path": "a\u{202e}b" }), json!({ "path_hex": "ff00" }));
    let file = env.file([
        json!({"add": "content", "id": one}),
        json!({"add": "content", "id": two}),
        json!({"add": "revision", "id": first}),
        json!({"add": "revision", "id": second}),
        json!({"add": "location", "path": "a\u{202e}b"}),
        json!({"add": "location", "path_hex": "ff00"}),
        relation(&one, &first, plain.clone()),
        relation(&one, &second, odd.clone()),
        relation(&two, &second, plain),
        json!({"add": "revision_before_revision", "src": first, "dst": second}),
    ]);
    env.ask(&["import", &file]);
    // Characters that would change a terminal are escaped, with the same value.
    let plain = r#""path":"a\u202eb""#;
    let row = |src: &str, dst: &str, path: &str| format!(r#"{{"dst":"{dst}",{path},"src":"{src}"}}"#);
    let of_one = [row(&one, &first, plain), row(&one, &second, r#""path_hex":"ff00""#)];
    let of_two = row(&two, &second, plain);
    let all: BTreeSet<String> = of_one.iter().chain([&of_two]).cloned().collect();
    let relation = "content_in_revision";
    for (arguments, query, expected) in [
        (vec!["relations", relation], format!("relations?relation={relation}"), all.clone()),
        (
            vec!["relations", relation, &one],
            format!("relations?relation={relation}&id={one}"),
            of_one.clone().into(),
        ),
        (
            vec!["relations", relation, &two, &one],
            format!("relations?relation={relation}&id={one}&id={two}"),
            all,
        ),
        (
            vec!["relations", relation, "--reverse", &second],
            format!("relations?relation={relation}&id={second}&reverse=true"),
            [of_one[1].clone(), of_two].into(),
        ),
        (
            vec!["relations", "revision_before_revision"],
            "relations?relation=revision_before_revision".to_owned(),
            [format!(r#"{{"dst":"{second}","src":"{first}"}}"#)].into(),
        ),
        (
            vec!["entities", "content"],
            "entities?kind=content".to_owned(),
            [&one, &two].map(|id| format!(r#"{{"id":"{id}"}}"#)).into(),
        ),
        (vec!["entities", "origin"], "entities?kind=origin".to_owned(), [].into()),
        (
            vec!["locations"],
            "locations".to_owned(),
            [format!("{{{plain}}}"), r#"{"path_hex":"ff00"}"#.to_owned()].into(),
        ),
    ] {
        assert_eq!(list(&env, &arguments), expected, "{arguments:?}");
        let reply = http(&env.base().admin_socket(), "GET", &format!("/v1/provenance/{query}"), &[], "");
        assert_eq!((reply.status, rows(&reply.body)), (200, expected), "{query}");
    }
    let (code, out, err) = env.base().cli(&["provenance", "relations", relation, "2032"]);
    assert_eq!((code, out.as_str()), (REFUSED, ""), "{err}");
    assert!(err.contains("2032: an identifier is 40 hex digits"), "{err}");
    assert!(instance.terminate().success(), "{}", env.base().log());
}

/// The rows have 60 MB, so that neither side can hold them.
#[test]
fn a_large_listing_takes_bounded_memory() {
    const ROWS: usize = 30_000;
    const GROWTH_MAX: u64 = 32 << 20;
    let (env, dsn) = postgres_env(Postgres::shared(), "listings-large");
    let path = "(repeat(md5(n::text), 60) || n)::bytea";
    let numbers = format!("generate_series(1, {ROWS}) n");
    Postgres::shared().script(
        &dsn,
        &format!(
            "INSERT INTO location (path) SELECT {path} FROM {numbers};
             INSERT INTO content (sha1) SELECT decode(md5(n::text) || '01234567', 'hex') FROM {numbers};
             INSERT INTO revision (sha1) VALUES (decode('{}', 'hex'));
             INSERT INTO content_in_revision SELECT c.id, r.id, l.id FROM content c, revision r, location l
             WHERE l.id = c.id",
            sha1_of(2, 1)
        ),
    );
    let instance = env.start();
    eventually("the store to answer", || env.base().cli(&["provenance", "stats"]).0 == 0);
    let before = instance.memory("VmHWM");
    assert_eq!(list(&env, &["locations"]).len(), ROWS);
    assert_eq!(list(&env, &["relations", "content_in_revision"]).len(), ROWS);
    assert_eq!(list(&env, &["relations", "content_in_revision", "--reverse", &sha1_of(2, 1)]).len(), ROWS);
    assert_eq!(list(&env, &["entities", "content"]).len(), ROWS);
    let grown = instance.memory("VmHWM").saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes for pages of 2 MB");
    assert!(instance.terminate().success(), "{}", env.base().log());

    // The original's client reads its store, without an instance and without a broker.
    let file = env.base().path().join("client.yml");
    let text = format!(
        "provenance:\n  storage:\n    cls: rabbitmq\n    url: amqp://127.0.0.1:1/%2f\n    storage_config: {{cls: postgresql, db: '{dsn}'}}\n"
    );
    std::fs::write(&file, text).expect("write a file");
    let file = file.display().to_string();
    assert_eq!(list(&env, &["locations", "--swh-config", &file]).len(), ROWS);
    assert_eq!(list(&env, &["entities", "revision", "--swh-config", &file]).len(), 1);
    let args = ["relations", "content_in_revision", "--swh-config", &file, "--reverse", &sha1_of(2, 1)];
    assert_eq!(list(&env, &args).len(), ROWS);
}

#[test]
fn a_listing_that_loses_its_store_ends_with_the_error() {
    let mut postgres = Postgres::start();
    let (env, dsn) = postgres_env(&postgres, "listings-lost");
    let rows = "INSERT INTO location (path) SELECT (repeat(md5(n::text), 60) || n)::bytea";
    postgres.script(&dsn, &format!("{rows} FROM generate_series(1, 20000) n"));
    let instance = env.start();
    eventually("the store to answer", || env.base().cli(&["provenance", "stats"]).0 == 0);
    let mut stream = UnixStream::connect(env.base().admin_socket()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
    let request = b"GET /v1/provenance/locations HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).expect("a request");
    let mut answer = vec![0; 4_000_000];
    stream.read_exact(&mut answer).expect("the first rows");
    postgres.kill_nine();
    // The end without a last chunk may be a reset.
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    assert!(!text.ends_with("\r\n0\r\n\r\n"), "the body must not look complete");
    let last = text.lines().rfind(|line| line.starts_with('{')).expect("a last line");
    let error: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(error["error"], "refused", "{last}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("database")), "{last}");
    // Without rows it has the same error, as a status.
    let reply = http(&env.base().admin_socket(), "GET", "/v1/provenance/locations", &[], "");
    assert_eq!((reply.status, &reply.json()["error"]), (409, &json!("refused")));
    let (code, out, err) = env.base().cli(&["provenance", "locations"]);
    assert_eq!((code, out.as_str()), (REFUSED, ""), "{err}");
    postgres.start_again();
    eventually("the store to be back", || env.base().cli(&["provenance", "locations"]).0 == 0);
    assert!(instance.terminate().success(), "{}", env.base().log());
}

#[test]
fn an_answer_that_is_cut_off_is_a_failure_of_the_command() {
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let rows = chunk("{\"path\":\"a\"}\n") + &chunk("{\"path\":\"b\u{202e}\"}\n{\"pa");
    let error = r#"{"error":"refused","message":"the store is away"}"#;
    for (body, code, printed, words) in [
        (rows.clone(), FAILURE, 2, "only 2 rows were printed: "),
        (format!("{rows}{}", chunk("th\":\"c\"}\n")), FAILURE, 3, "only 3 rows were printed: "),
        (rows.clone() + "0\r\n\r\n", FAILURE, 2, "the last line is not complete"),
        (chunk("{\"path\":\"a\"}\n") + &chunk(&format!("{error}\n")), REFUSED, 1, "the store is away"),
        (chunk("not JSON\n") + "0\r\n\r\n", FAILURE, 0, "a line of the answer is invalid"),
        (format!("{}0\r\n\r\n", chunk("{\"path\":\"a\"}\n")), 0, 1, ""),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let head =
                BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            assert!(head.count() > 0);
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(format!("{head}{body}").as_bytes()).expect("an answer");
        });
        let fixture = env();
        let (got, out, err) = fixture.base().cli(&["provenance", "locations", "--url", &url]);
        server.join().expect("the server");
        assert_eq!((got, out.lines().count()), (code, printed), "{out} {err}");
        assert!(err.contains(words) && !out.contains('\u{202e}'), "{err}");
    }
}

#[test]
fn listings_need_an_instance_with_provenance() {
    let env = env();
    let instance = env.base().start();
    let (code, out, err) = env.base().cli(&["provenance", "locations"]);
    assert_eq!((code, out.as_str()), (NOT_FOUND, ""), "{err}");
    assert!(instance.terminate().success(), "{}", env.base().log());
}
