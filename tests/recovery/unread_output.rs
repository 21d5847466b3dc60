//! Readers of standard error and standard output that stop: an instance does not wait for them.

use std::io::{BufRead, BufReader, Read, pipe};

use orchestrator_harness::{Instance, Reply, TestEnv, http, wait_for};
use rustix::process::Signal;

const PAUSE: &str = "/v1/consoles/orchestrator/queue/queue_console/pause";
const DROPPED: &str = "orchestrator_log_lines_dropped_total ";
/// Bytes that are kept at least: the capacity of a pipe, and of the instance's own queue. Each of the 16
/// pages of the pipe may leave less than a line unused, since a line is written whole.
const KEPT: usize = (64 << 10) + (1 << 20) - 16 * LINE_MAX;
/// Longest line of this test, in bytes.
const LINE_MAX: usize = 700;

fn dropped(env: &TestEnv) -> u64 {
    let metrics = http(&env.admin_socket(), "GET", "/metrics", &[], "").body;
    let value = metrics.lines().find_map(|line| line.strip_prefix(DROPPED));
    value.and_then(|value| value.parse().ok()).expect("the counter of dropped lines")
}

/// Gives 200 commands: more than a pipe holds. The line of each has its number.
fn fill_pipe(env: &TestEnv, from: u32) {
    for number in from..from + 200 {
        let body = format!(r#"{{"reason":"number {number}{}"}}"#, "x".repeat(400));
        let reply = http(&env.admin_socket(), "POST", PAUSE, &["Content-Type: application/json"], &body);
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}

#[test]
fn an_instance_works_while_nobody_reads_its_output() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let (reader, writer) = pipe().expect("a pipe");
    let mut command = env.command();
    command.args(["--set", "telemetry.filter=trace"]);
    command.stdout(writer.try_clone().expect("a second handle")).stderr(writer);
    let mut instance = Instance::spawn(command);
    instance.await_service(&env);
    // Each command has a deadline of its own.
    let is_over = |from: u32| {
        fill_pipe(&env, from);
        dropped(&env) > 0
    };
    assert!((0..10_000).step_by(200).any(is_over), "no line was dropped");
    assert_eq!(env.cli(&["health"]).0, 0, "the endpoint answers");
    assert_eq!(env.worker().ready(), Reply::NoJobs, "a worker is answered");

    // What waits arrives in order, in whole lines, and then lines are written at once again.
    let (mut lines, mut bytes, mut last) = (BufReader::new(reader), 0, None);
    while bytes < KEPT {
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        bytes += line.len();
        let is_banner = line.starts_with("orchestrator ") || line.starts_with("  ") || line == "\n";
        assert!(line.starts_with("20") || is_banner, "a part of a line: {line}");
        let number = line.split_once("audit::done").and_then(|(_, line)| line.split_once("reason=\"number "));
        let number = number.and_then(|(_, rest)| rest.split('x').next()?.parse::<u32>().ok());
        if number.is_some() {
            assert_eq!(number, Some(last.map_or(0, |last| last + 1)), "{line}");
            last = number;
        }
    }
    assert!(last > Some(100), "{last:?}");
    instance.signal(Signal::USR1);
    wait_for("a new line", || {
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        line.contains("this signal has no meaning").then_some(())
    });

    // The end waits for the reader for a second only.
    fill_pipe(&env, 0);
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait().code(), Some(0));
    let mut rest = Vec::new();
    lines.read_to_end(&mut rest).expect("the rest");
    assert!(rest.len() <= (64 << 10) + 8_192, "{} bytes", rest.len());
}
