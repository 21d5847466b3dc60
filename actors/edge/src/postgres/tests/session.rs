//! Requests to a real server, and what their errors tell.

use std::{borrow::Cow, time::Duration};

use orchestrator_harness::{Postgres, free_port, wait_for};

use crate::{
    PeerErrorKind, Sent,
    postgres::{Address, Params, PostgresError, Session, SessionSettings, SqlState},
};

const SETTINGS: SessionSettings = SessionSettings {
    sql: &["SET timezone = 'UTC';"],
    connect_timeout: Duration::from_secs(10),
    answer_timeout: Duration::from_secs(60),
    row_max: 1 << 20,
    answer_max: 4 << 20,
};
const SLEEP: &str = "SELECT pg_sleep($1)::text";

pub(super) async fn open(dsn: &str) -> Session {
    open_with(dsn, &SETTINGS).await.expect("a session")
}

async fn open_with(dsn: &str, settings: &SessionSettings) -> Result<Session, PostgresError> {
    Session::open(&Address::parse(dsn, "edge tests").expect("an address"), settings).await
}

fn told(error: &PostgresError) -> (PeerErrorKind, Sent, Option<&str>) {
    (error.peer.kind, error.peer.sent, error.state.as_ref().map(SqlState::code))
}

async fn answer(session: &mut Session) -> String {
    session.query("asking", "SELECT 'an answer'", Vec::new()).await.expect("an answer")[0].try_get(0).unwrap()
}

#[tokio::test]
async fn a_session_has_its_settings_and_the_name_of_its_application() {
    let mut session = open(&Postgres::shared().create_database("settings")).await;
    let sql = "SELECT current_setting('timezone') || ' ' || current_setting('application_name')";
    let rows = session.query("asking", sql, Vec::new()).await.expect("a row");
    assert_eq!(rows[0].try_get::<_, &str>(0).unwrap(), "UTC edge tests");
}

#[tokio::test]
async fn a_server_that_is_too_old_is_refused_with_both_versions() {
    let mut session = open(&Postgres::shared().create_database("versions")).await;
    session.check_version(13).await.expect("a server of this machine");
    let refused = session.check_version(99).await.expect_err("no such server").to_string();
    assert!(
        refused.contains("the server is PostgreSQL 1") && refused.contains(": use 99 or later"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_transaction_returns_the_rows_of_each_command() {
    let mut session = open(&Postgres::shared().create_database("transaction")).await;
    session.batch("creating", "CREATE TABLE t (n int PRIMARY KEY)").await.expect("a table");
    let insert = |n: i32| -> (Cow<'static, str>, Params<'_>) {
        ("INSERT INTO t VALUES ($1) RETURNING n".into(), vec![Box::new(n)])
    };
    let count: (Cow<'static, str>, Params<'_>) = (format!("SELECT n FROM {} ORDER BY n", "t").into(), vec![]);
    let commands = vec![insert(1), insert(2), count, ("DELETE FROM t WHERE n = 1".into(), vec![])];
    let answers = session.transaction("writing", "LOCK TABLE t;", commands).await.expect("committed");
    let numbers: Vec<Vec<i32>> =
        answers.iter().map(|rows| rows.iter().map(|row| row.try_get(0).unwrap()).collect()).collect();
    assert_eq!(numbers, [vec![1], vec![2], vec![1, 2], vec![]]);

    let mistyped = ("INSERT INTO t VALUES ($1)".into(), vec![Box::new("no number") as _]);
    for (commands, state) in [(vec![insert(3), insert(2)], Some("23505")), (vec![insert(4), mistyped], None)]
    {
        let error = session.transaction("writing", "", commands).await.expect_err("a failed command");
        assert_eq!(told(&error).2, state, "{error}");
        let rows = session.query("asking", "SELECT n FROM t", Vec::new()).await.expect("the session goes on");
        let stored: Vec<i32> = rows.iter().map(|row| row.try_get(0).unwrap()).collect();
        assert_eq!(stored, [2], "{error}");
    }
}

#[tokio::test]
async fn an_error_of_the_server_tells_its_code_and_leaves_the_session_usable() {
    let mut session = open(&Postgres::shared().create_database("refused")).await;
    session.batch("creating", "CREATE TABLE t (n int PRIMARY KEY CHECK (n < 9))").await.expect("a table");
    for (sql, state, is_invalid_data) in [
        ("SELECT 1 / (random() * 0)::int", "22012", true),
        ("INSERT INTO t VALUES (9)", "23514", true),
        ("INSERT INTO t VALUES (1), (1)", "23505", false),
        ("SELECT nothing", "42703", false),
    ] {
        let error = session.query("asking", sql, Vec::new()).await.expect_err(sql);
        assert_eq!(told(&error), (PeerErrorKind::Refused, Sent::Yes, Some(state)), "{error}");
        assert_eq!(error.is_invalid_data(), is_invalid_data, "{error}");
        let said = if is_invalid_data { "refuses the data while asking" } else { "failed while asking" };
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(answer(&mut session).await, "an answer");
    }
}

#[tokio::test]
async fn answers_beyond_a_limit_end_the_session() {
    let dsn = Postgres::shared().create_database("limits");
    let rows =
        |length: u32, count: u32| format!("SELECT repeat('x', {length}) FROM generate_series(1, {count})");
    for (sql, kind, sent, text) in [
        (rows(1_000_000, 5), PeerErrorKind::TooLarge, Sent::Yes, "longer than 4194304 bytes: ask for less"),
        (rows(1 << 20, 1), PeerErrorKind::Malformed, Sent::Maybe, "4 to 1048576 are accepted"),
    ] {
        let mut session = open(&dsn).await;
        let error = session.query("asking", sql, Vec::new()).await.expect_err("a long answer");
        assert_eq!(told(&error), (kind, sent, None), "{error}");
        assert!(error.to_string().contains(text), "{error}");
        let error = session.batch("going on", "SELECT 1").await.expect_err("the connection ended");
        assert_eq!(told(&error).1, Sent::No, "{error}");
    }
}

#[tokio::test]
async fn a_late_answer_ends_the_session() {
    let settings = SessionSettings { answer_timeout: Duration::from_millis(1_500), ..SETTINGS };
    let dsn = Postgres::shared().create_database("late");
    let mut session = open_with(&dsn, &settings).await.expect("a session");
    let error = session.query("asking", SLEEP, vec![Box::new(600_f64)]).await.expect_err("no answer");
    assert_eq!(told(&error), (PeerErrorKind::Timeout, Sent::Maybe, None));
    assert_eq!(error.to_string(), "the database did not answer within 1.5 s while asking");
    let error = session.batch("going on", "SELECT 1").await.expect_err("the connection is closed");
    assert_eq!(told(&error), (PeerErrorKind::Lost, Sent::No, None));
}

#[tokio::test]
async fn a_server_that_cannot_be_used_got_no_request() {
    let dsn = Postgres::shared().create_database("known");
    let other = |parameter: &str| format!("{dsn}{parameter}");
    let nobody = format!("postgresql://postgres@127.0.0.1:{}/d", free_port());
    for (address, kind, state) in [
        (nobody, PeerErrorKind::Connect, None),
        (other("-unknown"), PeerErrorKind::Refused, Some("3D000")),
        (other("?options=-ctimezone%3Dnowhere"), PeerErrorKind::Refused, Some("22023")),
        (other("?sslmode=require"), PeerErrorKind::Tls, None),
        (other("?target_session_attrs=standby"), PeerErrorKind::Connect, None),
    ] {
        let error = open_with(&address, &SETTINGS).await.expect_err(&address);
        assert_eq!(told(&error), (kind, Sent::No, state), "{error}");
    }
    let settings = SessionSettings { sql: &["SET nothing = 1;"], ..SETTINGS };
    let error = open_with(&dsn, &settings).await.expect_err("an invalid setting");
    assert_eq!(told(&error), (PeerErrorKind::Refused, Sent::No, Some("42704")), "{error}");
}

/// Sessions of this test with a request in progress.
const ACTIVE: &str = "FROM pg_stat_activity WHERE state = 'active' AND application_name = 'edge tests'";

/// Waits until the server works on one request.
fn wait_for_request(server: &Postgres, dsn: &str) {
    let count = format!("SELECT count(*) {ACTIVE}");
    wait_for("a request", || (server.script(dsn, &count) == "1").then_some(()));
}

#[tokio::test]
async fn a_lost_connection_tells_whether_the_server_can_have_the_request() {
    let mut server = Postgres::start();
    let dsn = server.create_database("lost");
    let (mut ended, mut asking) = (open(&dsn).await, open(&dsn).await);
    let (mut idle, mut listening) = (open(&dsn).await, open(&dsn).await);
    let rows = idle.query("asking", "SELECT pg_backend_pid()", Vec::new()).await.expect("a row");
    // Waits for the end of the process.
    server.script(
        &dsn,
        &format!("SELECT pg_terminate_backend({}, 60000)", rows[0].try_get::<_, i32>(0).unwrap()),
    );
    // The runtime sees the end of the connection while this waits.
    listening.batch("listening", "LISTEN c; NOTIFY c, 'kept'").await.expect("it listens");
    let error = idle.batch("asking", "SELECT 1").await.expect_err("the server ended the session");
    assert_eq!(told(&error), (PeerErrorKind::Lost, Sent::No, None), "{error}");

    for session in [&mut ended, &mut asking] {
        session.query("preparing", SLEEP, vec![Box::new(0_f64)]).await.expect("prepared");
    }
    let (error, ()) = tokio::join!(ended.query("asking", SLEEP, vec![Box::new(600_f64)]), async {
        wait_for_request(&server, &dsn);
        server.script(&dsn, &format!("SELECT pg_terminate_backend(pid) {ACTIVE}"));
    });
    let error = error.expect_err("the server ended the session");
    assert_eq!(told(&error), (PeerErrorKind::Lost, Sent::Maybe, Some("57P01")), "{error}");

    let (asked, waited, ()) = tokio::join!(
        asking.query("asking", SLEEP, vec![Box::new(600_f64)]),
        async {
            let kept = listening.notified(Duration::ZERO).await.expect("no error").expect("kept");
            assert_eq!((kept.channel(), kept.payload()), ("c", "kept"));
            listening.notified(Duration::from_secs(60)).await
        },
        async {
            wait_for_request(&server, &dsn);
            server.kill_nine();
        }
    );
    let error = asked.expect_err("the server is killed");
    assert_eq!(told(&error), (PeerErrorKind::Lost, Sent::Maybe, None), "{error}");
    let error = waited.expect_err("the server is killed");
    assert!(error.to_string().contains("broke while waiting for a notification"), "{error}");
}
