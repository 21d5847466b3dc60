//! Tests of the client commands, parsed by clap, against a real tree and endpoint in this process.

use std::{
    io::{self, Write},
    time::Duration,
};

use clap::Parser;
use orchestrator_admin::{AdminConfig, Binding, ProgramInfo};
use orchestrator_subsystem::{ConsoleError, ConsoleReply, ConsoleVerb, Effect, VerbSchemas};
use orchestrator_supervise::{
    Child, ChildCx, ChildSpec, Factory, Handle, Handled, Mailbox, Message, Root, Shutdown, Strategy,
    SupervisorSpec, mailbox,
};
use serde_json::{Value, json};

use super::{ClientCommand, ExitCode, Target, run};

#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct CommandLine {
    #[command(subcommand)]
    command: ClientCommand,
    #[command(flatten)]
    target: Target,
}

/// Test double of the queue's console.
struct Console;

impl Child for Console {}

/// Verb of the queue, by its position in [`VERBS`].
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Verb<const N: usize>(Value);

const VERBS: [&str; 6] = ["ls", "peek", "stats", "requeue", "pause", "resume"];

impl<const N: usize> Message for Verb<N> {
    type Result = ConsoleReply;
}

impl<const N: usize> Handle<Verb<N>> for Console {
    fn handle(&mut self, Verb(args): Verb<N>, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ConsoleReply> {
        Handled::now(match VERBS[N] {
            "ls" => Ok(json!([
                { "fetcher": "github", "run_started": 1_700_000_000, "complete": true, "rows": 12, "waiting": 7, "deleted": false },
                { "fetcher": "pypi", "run_started": 5, "complete": false, "rows": 1, "waiting": 0, "deleted": false },
            ])),
            "peek" if args == json!({ "n": 3 }) => Ok(json!([{
                "attr_path": "a.b", "payload": format!("1 2\t{}", "x".repeat(80)), "fetcher": "github", "run_started": 5,
                "last_started": 0,
            }])),
            "peek" => Ok(json!([])),
            "stats" => Ok(
                json!({ "held": 0, "in_flight": 2, "logged": 3, "paused": false, "ready": 7, "rows": 1234 }),
            ),
            "requeue" if args == json!({ "attr_path": "a.b" }) => Ok(json!({ "requeued": 2 })),
            "requeue" => Ok(json!({ "requeued": 0 })),
            "pause" => Err(ConsoleError::Refused("the queue is draining".to_owned())),
            _ => return cx.atomically(std::future::pending::<()>(), |_, (), _| Ok(Value::Null)),
        })
    }
}

fn verb<const N: usize>(console: &Mailbox<Console>) -> ConsoleVerb {
    ConsoleVerb::new::<Verb<N>, _>(VERBS[N], Effect::Changes, VerbSchemas::default, console.recipient())
}

fn verbs(console: &Mailbox<Console>) -> [ConsoleVerb; 6] {
    [
        verb::<0>(console),
        verb::<1>(console),
        verb::<2>(console),
        verb::<3>(console),
        verb::<4>(console),
        verb::<5>(console),
    ]
}

/// A pipe whose reader has closed it.
struct ClosedPipe;

impl Write for ClosedPipe {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the command lines one after the other against a tree. Returns the exit code and output of each.
fn run_lines(lines: &[&str]) -> Vec<(ExitCode, String)> {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    with_tree(move |socket| {
        let line = |line: &String| run_line(&format!("{line} --socket {socket}"), &mut Vec::new());
        lines.iter().map(line).collect()
    })
}

/// Runs `user` on another thread while a tree runs. `user` receives the path of the endpoint's socket.
fn with_tree<T: Send + 'static>(user: impl FnOnce(&str) -> T + Send + 'static) -> T {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("admin.sock");
    let (store, slot) = mailbox::<Console>(4);
    let source = Factory::task(|cx| async move {
        cx.stop.cancelled().await;
        Ok(())
    });
    let console = ChildSpec::worker("queue_console", Factory::actor(slot, |_| Ok(Console)));
    let queue = SupervisorSpec::new(Strategy::OneForOne)
        .child(
            console
                .attach(orchestrator_subsystem::Console::new(verbs(&store)))
                .shutdown(Shutdown::After(Duration::ZERO)),
        )
        .child(ChildSpec::worker("source", source).pausable());
    let admin =
        AdminConfig { listen: String::new(), unix_socket: Some(socket.clone()), ..AdminConfig::default() };
    let root = SupervisorSpec::new(Strategy::OneForOne)
        .child(ChildSpec::supervisor("queue", queue))
        .child(orchestrator_admin::child_spec(&admin, Binding::Required, ProgramInfo::default()));
    actix_rt::System::new().block_on(async move {
        let mut root = Root::start("o", root).await.expect("a valid tree");
        let (done, result) = tokio::sync::oneshot::channel();
        let user = std::thread::spawn(move || {
            // The receiver waits below.
            let _ = done.send(user(&socket.display().to_string()));
        });
        let result = result.await;
        user.join().expect("no panic");
        root.stop().await;
        result.expect("a result")
    })
}

fn run_line(line: &str, out: &mut Vec<u8>) -> (ExitCode, String) {
    let line = CommandLine::try_parse_from(line.split_whitespace())
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let code = run(&line.command, &line.target, out);
    (code, String::from_utf8_lossy(out).into_owned())
}

#[test]
fn tree_prints_text_or_json() {
    let results = run_lines(&["tree", "tree queue/source", "tree queue --json"]);
    let (code, text) = &results[0];
    assert_eq!(*code, ExitCode::Ok);
    assert!(text.contains("├─ queue") && text.contains("│  └─ source") && text.contains("http up"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert_eq!(results[1].1.lines().count(), 2, "{}", results[1].1);
    let tree: Value = serde_json::from_str(&results[2].1).expect("JSON");
    assert_eq!(tree["root"]["path"], "o/queue");
}

#[test]
fn commands_print_the_state_before_and_after() {
    let results = run_lines(&[
        "pause queue/source --reason flood",
        "resume o/queue/source",
        "stop queue/source",
        "start queue/source",
        "restart queue --json",
    ]);
    let expected = ["running -> paused", "paused -> running", "running -> stopped", "stopped -> running"];
    for ((code, text), change) in results.iter().zip(expected) {
        assert_eq!((*code, text.as_str()), (ExitCode::Ok, format!("o/queue/source: {change}\n").as_str()));
    }
    let answer: Value = serde_json::from_str(&results[4].1).expect("JSON");
    assert_eq!(
        answer,
        json!({ "path": "o/queue", "verb": "restart", "before": "running", "after": "running" })
    );
}

#[test]
fn queue_commands_print_tables() {
    let results = run_lines(&[
        "queue ls",
        "queue peek -n 3",
        "queue peek",
        "queue stats",
        "queue requeue a.b",
        "queue requeue c",
        "queue stats --json",
    ]);
    let cut = format!("1 2 {}…", "x".repeat(55));
    let expected = [
        "FETCHER  RUN STARTED           COMPLETE  ROWS  WAITING  DELETED\n\
         github   2023-11-14T22:13:20Z  yes         12        7  no\n\
         pypi     5                     no           1        0  no\n",
        &format!(
            "ATTR PATH  PAYLOAD{}FETCHER  RUN STARTED  LAST STARTED\n\
             a.b        {cut}  github   5            1970-01-01T00:00:00Z\n",
            " ".repeat(55),
        ),
        "no job is waiting\n",
        "held          0\nin_flight     2\nlogged        3\npaused       no\nready         7\nrows       1234\n",
        "2 requeued\n",
        "nothing to requeue: no worker has c\n",
    ];
    for ((code, text), expected) in results.iter().zip(expected) {
        assert_eq!((*code, text.as_str()), (ExitCode::Ok, expected));
    }
    let stats: Value = serde_json::from_str(&results[6].1).expect("JSON");
    assert_eq!(stats["rows"], 1234);
}

#[test]
fn each_failure_has_its_exit_code_and_no_output() {
    let cases = [
        ("tree missing", ExitCode::NotFound),
        ("restart queue/missing", ExitCode::NotFound),
        ("pause queue/queue_console", ExitCode::Refused),
        ("start queue/source", ExitCode::Refused),
        ("stop o", ExitCode::Refused),
        ("queue pause", ExitCode::Refused),
        ("queue resume", ExitCode::Unconfirmed),
    ];
    let results = run_lines(&cases.map(|(line, _)| line));
    for ((line, expected), (code, text)) in cases.iter().zip(results) {
        assert_eq!((code, text.as_str()), (*expected, ""), "{line}");
    }
}

#[test]
fn an_unreachable_endpoint_differs_from_another_program() {
    let mut out = Vec::new();
    assert_eq!(run_line("tree --socket /nonexistent/admin.sock", &mut out).0, ExitCode::Unreachable);
    assert_eq!(run_line("tree --url https://localhost", &mut out).0, ExitCode::Usage);
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", other.local_addr().expect("an address"));
    let other_program = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().expect("a client");
        let _ = io::Read::read(&mut stream, &mut [0; 1024]);
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n");
        drop(other);
    });
    assert_eq!(run_line(&format!("tree --url {url}"), &mut out).0, ExitCode::Failure);
    other_program.join().expect("no panic");
    assert_eq!(run_line(&format!("tree --url {url}"), &mut out).0, ExitCode::Unreachable);
    assert!(out.is_empty());
}

#[test]
fn tail_reports_every_lost_connection() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", server.local_addr().expect("an address"));
    let tree = with_tree(|socket| run_line(&format!("tree --json --socket {socket}"), &mut Vec::new()).1);
    let answer = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    // Two streams of events that end, a connection without an answer, and a refusal, which ends the command.
    let answers = [
        answer("200 OK", &tree),
        answer("200 OK", ": alive\n\n"),
        String::new(),
        answer("200 OK", ": alive\n\n"),
        answer("503 Service Unavailable", r#"{"error":"unavailable","message":"x"}"#),
    ];
    let serving = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = server.accept().expect("a client");
            let _ = io::Read::read(&mut stream, &mut [0; 1024]);
            stream.write_all(answer.as_bytes()).expect("a client that reads");
        }
    });
    let (code, out) = run_line(&format!("tail --url {url}"), &mut Vec::new());
    assert_eq!(
        (code, out.as_str()),
        (ExitCode::Refused, "-- connection lost, reconnecting --\n".repeat(2).as_str())
    );
    serving.join().expect("no panic");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let code = with_tree(|socket| {
        let line = CommandLine::try_parse_from(["tree", "--socket", socket]).expect("a line");
        run(&line.command, &line.target, &mut ClosedPipe)
    });
    assert_eq!(code, ExitCode::Ok);
}

#[test]
fn every_command_has_an_example() {
    use clap::CommandFactory;
    fn visit(command: &clap::Command) {
        let subcommands: Vec<_> = command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
        if subcommands.is_empty() {
            let about = command.get_long_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.contains("Example: orchestrator "), "{}: {about}", command.get_name());
        }
        subcommands.into_iter().for_each(visit);
    }
    CommandLine::command().debug_assert();
    visit(&CommandLine::command());
}

#[test]
fn top_continues_after_a_lost_connection() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", server.local_addr().expect("an address"));
    let tree = with_tree(|socket| run_line(&format!("tree --json --socket {socket}"), &mut Vec::new()).1);
    let whole = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{tree}", tree.len());
    let refusal = r#"{"error":"unavailable","message":"x"}"#;
    let refusal =
        format!("HTTP/1.1 503 Service Unavailable\r\nContent-Length: {}\r\n\r\n{refusal}", refusal.len());
    // A connection without a response, one that is reset, and one that ends within the response.
    let answers = [(true, &*whole), (true, ""), (false, ""), (true, &whole[..200]), (true, &refusal)];
    let answers = answers.map(|(reads, answer)| (reads, answer.to_owned()));
    let serving = std::thread::spawn(move || {
        for (reads, answer) in answers {
            let (mut stream, _) = server.accept().expect("a client");
            // Closing a socket with unread bytes resets the connection.
            let part = if reads { 1024 } else { 1 };
            let _ = io::Read::read(&mut stream, &mut vec![0; part]);
            stream.write_all(answer.as_bytes()).expect("a client that reads");
        }
    });
    let (code, out) = run_line(&format!("top --json --interval 0.1 --url {url}"), &mut Vec::new());
    assert_eq!((code, out.matches("lost the connection").count()), (ExitCode::Refused, 3), "{out}");
    serving.join().expect("no panic");
}
