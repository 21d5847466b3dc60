//! Handler programs, as real processes.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use orchestrator_catalog_rules::{outcome_kind::ExitCodes, rows::Row};
use orchestrator_edge::process::Environment;
use orchestrator_supervise::testing::eventually;
use serde_json::{Value, json};

use crate::{
    edge::handlers::Command,
    handler::{Failure, Handler, Outcome, Task},
};

/// The shell `script`, with `arguments` as `$1` and so on.
fn shell(script: &str, arguments: &[&Path]) -> Command {
    let mut argv = ["/bin/sh", "-c", script, "handler"].map(str::to_owned).to_vec();
    argv.extend(arguments.iter().map(|path| path.display().to_string()));
    Command {
        argv,
        cwd: None,
        timeout: Duration::from_secs(60),
        grace: Duration::from_secs(5),
        answer_bytes: 1 << 20,
        exit_codes: ExitCodes::default(),
        environment: Environment::default(),
    }
}

fn row(value: Value) -> Row {
    serde_json::from_value(value).expect("an object")
}

fn task(value: Value) -> Task {
    Task { rule: "measure".to_owned(), row: row(value), token: None, former_token: None, attempt: None }
}

async fn run(script: &str) -> Outcome {
    shell(script, &[]).handle(task(json!({"RID": "1-A"}))).await
}

/// True for a zombie, too.
fn exists(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// An orphan's new parent may reap it late.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z")
}

/// Waits for a line in a file and returns its content.
async fn line_of(path: &Path) -> String {
    let read = || fs::read_to_string(path).unwrap_or_default();
    eventually(&format!("{} has a line", path.display()), || read().ends_with('\n')).await;
    read().trim().to_owned()
}

#[tokio::test]
async fn the_row_is_one_line_and_the_answer_one_object() {
    let values =
        json!({"RID": "1-A", "text": "two\nlines, \"quoted\" \u{1f600}", "none": null, "number": 1.5});
    // The second `read` finds the end of the input.
    let echo = r#"read -r line; read -r more && exit 1; printf '{"got": %s}' "$line""#;
    let outcome = shell(echo, &[]).handle(task(values.clone())).await;
    assert_eq!(outcome, Outcome::Done(row(json!({"got": values}))));
    assert_eq!(run("exit 0").await, Outcome::Done(Row::new()), "saying nothing is an answer");
}

#[tokio::test]
async fn numbers_reach_the_program_and_come_back_with_their_digits() {
    let digits = r#"{"v":12345678901234567890.123456789,"w":18446744073709551616,"x":1.10}"#;
    let row = serde_json::from_str(digits).expect("a row");
    let outcome = shell("cat", &[]).handle(Task { row, ..task(json!({})) }).await;
    let Outcome::Done(answer) = outcome else { panic!("{outcome:?}") };
    assert_eq!(serde_json::to_string(&answer).expect("JSON"), digits);
}

#[tokio::test]
async fn the_claim_is_in_the_environment() {
    let script = r#"printf '["%s", "%s", "%s"]' "$ORCHESTRATOR_RULE" "${ORCHESTRATOR_TOKEN-unset}" "${ORCHESTRATOR_ATTEMPT-unset}" >"$1""#;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("environment");
    for (token, attempt, seen) in [
        (Some("me/7"), Some(3), json!(["measure", "me/7", "3"])),
        (None, None, json!(["measure", "unset", "unset"])),
    ] {
        let task = Task { token: token.map(str::to_owned), attempt, ..task(json!({})) };
        assert_eq!(shell(script, &[&file]).handle(task).await, Outcome::Done(Row::new()));
        let found: Value = serde_json::from_slice(&fs::read(&file).expect("written")).expect("JSON");
        assert_eq!(found, seen);
    }
}

#[tokio::test]
async fn a_program_runs_in_its_directory_without_a_shell() {
    let folder = tempfile::tempdir().expect("a folder");
    let endpoint = folder.path().canonicalize().expect("its path");
    let mut command = shell(r#"printf '{"at": "%s"}' "$PWD""#, &[]);
    command.cwd = Some(endpoint.clone());
    let outcome = command.handle(task(json!({}))).await;
    assert_eq!(outcome, Outcome::Done(row(json!({"at": endpoint.display().to_string()}))));
    let argv = ["printf", r#"{"$HOME": "%s"}"#, "* ; $(id)"].map(str::to_owned).to_vec();
    let plain = Command { argv, ..shell("", &[]) };
    assert_eq!(plain.handle(task(json!({}))).await, Outcome::Done(row(json!({"$HOME": "* ; $(id)"}))));
}

#[tokio::test]
async fn exit_codes_give_the_outcome_and_standard_error_the_reason() {
    let shell_says = |code| format!("/bin/sh exited with {code}: no luck");
    let exit = async |code: i32| run(&format!("echo no luck >&2; echo '{{}}'; exit {code}")).await;
    assert_eq!(exit(0).await, Outcome::Done(Row::new()));
    assert_eq!(exit(1).await, Outcome::failed(shell_says(1)));
    assert_eq!(exit(75).await, Outcome::Later(shell_says(75)));
    assert_eq!(exit(64).await, Outcome::dead(shell_says(64)));
    assert_eq!(exit(65).await, Outcome::dead(shell_says(65)));
    let mut command = shell("exit 7", &[]);
    command.exit_codes.done = vec![7];
    assert_eq!(command.handle(task(json!({}))).await, Outcome::Done(Row::new()));
    let killed = run("kill -9 $$").await;
    assert_eq!(killed, Outcome::failed("/bin/sh was ended by a signal: 9 (SIGKILL)".to_owned()));
}

#[tokio::test]
async fn the_end_of_standard_error_is_kept() {
    let script = r#"i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done >&2; exit 1"#;
    let Outcome::Failed(Failure { error: text, .. }) = run(script).await else { panic!("it failed") };
    assert!(text.ends_with("\nline 19999") && (2000..2200).contains(&text.len()), "{text}");
}

#[tokio::test]
async fn an_answer_that_is_not_an_object_fails_and_is_quoted() {
    let Outcome::Failed(Failure { error: text, .. }) = run("printf '\\033[1mall is well'").await else {
        panic!("it failed")
    };
    assert!(text.starts_with("/bin/sh answered `\\u{1b}[1mall is well`, which is no JSON"), "{text}");
    assert!(matches!(run("echo '[1, 2]'").await, Outcome::Failed(_)));
    assert_eq!(run("echo no; exit 75").await, Outcome::Later("/bin/sh exited with 75".to_owned()));
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_drained_and_fails() {
    let script = r#"head -c 10485760 /dev/zero && echo all >"$1""#;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let outcome = shell(script, &[file.path()]).handle(task(json!({}))).await;
    let Outcome::Failed(Failure { error: text, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(text.contains("answered with more than 1048576 bytes"), "{text}");
    assert_eq!(fs::read_to_string(file.path()).expect("written"), "all\n", "it could finish");
    // The same answer within the limit.
    let long = r#"printf '{"text": "'; head -c 1000000 /dev/zero | tr '\0' x; printf '"}'"#;
    let Outcome::Done(fields) = run(long).await else { panic!("it is done") };
    assert_eq!(fields["text"].as_str().map(str::len), Some(1_000_000));
}

#[tokio::test]
async fn a_large_row_is_delivered_and_may_be_ignored() {
    let large = json!({"RID": "1-A", "text": "x".repeat(1 << 20)});
    let counted = shell(r#"printf '{"bytes": %s}' "$(wc -c)""#, &[]).handle(task(large.clone())).await;
    let wanted = serde_json::to_string(&large).expect("JSON").len() + 1;
    assert_eq!(counted, Outcome::Done(row(json!({"bytes": wanted}))));
    for script in ["exit 0", "exec <&-", "head -c 10 >/dev/null"] {
        assert_eq!(
            shell(script, &[]).handle(task(large.clone())).await,
            Outcome::Done(Row::new()),
            "{script}"
        );
    }
}

#[tokio::test]
async fn a_program_that_cannot_start_is_retried_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("plain");
    fs::write(&plain, "no program").expect("write");
    let missing = folder.path().join("missing");
    for path in [&missing, &plain, folder.path()] {
        let command = Command { argv: vec![path.display().to_string()], ..shell("", &[]) };
        let outcome = command.handle(task(json!({}))).await;
        let Outcome::Later(text) = outcome else { panic!("{outcome:?}") };
        assert!(text.starts_with(&format!("{} cannot be started: ", path.display())), "{text}");
    }
    let command = Command { cwd: Some(missing.clone()), ..shell("exit 0", &[]) };
    let Outcome::Later(text) = command.handle(task(json!({}))).await else { panic!("no such folder") };
    assert!(text.contains(&format!("in {}", missing.display())), "{text}");
}

/// Starts a child process, prints both process ids, and sleeps.
const FAMILY: &str = r#"sleep 1000 & echo $! >"$1"; echo $$ >"$2"; wait; wait"#;

#[tokio::test]
async fn the_process_group_ends_at_the_time_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (child, leader) = (folder.path().join("child"), folder.path().join("leader"));
    // Neither process reacts to SIGTERM.
    let stubborn = format!("trap '' TERM; {FAMILY}");
    for (script, grace) in
        [(FAMILY, Duration::from_secs(60)), (stubborn.as_str(), Duration::from_millis(100))]
    {
        let command = Command { timeout: Duration::from_secs(2), grace, ..shell(script, &[&child, &leader]) };
        let begun = Instant::now();
        let outcome = command.handle(task(json!({}))).await;
        assert_eq!(outcome, Outcome::failed("/bin/sh did not end within 2s".to_owned()));
        assert!(begun.elapsed() < Duration::from_secs(50), "the end was not waited for in vain");
        let (child, leader) = (line_of(&child).await, line_of(&leader).await);
        assert!(!exists(&leader), "it is reaped");
        eventually("its child has ended", || !runs(&child)).await;
    }
}

#[tokio::test]
async fn a_program_may_clean_up_after_sigterm() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let script = r#"trap 'echo tidy >"$1"; exit 0' TERM; sleep 1000 & wait"#;
    let command = Command { timeout: Duration::from_secs(2), ..shell(script, &[file.path()]) };
    assert!(matches!(command.handle(task(json!({}))).await, Outcome::Failed(_)), "it is late all the same");
    assert_eq!(fs::read_to_string(file.path()).expect("written"), "tidy\n");
}

#[tokio::test]
async fn the_process_group_ends_when_the_row_is_abandoned() {
    let folder = tempfile::tempdir().expect("a folder");
    let (child, leader) = (folder.path().join("child"), folder.path().join("leader"));
    let command = shell(&format!("trap '' TERM; {FAMILY}"), &[&child, &leader]);
    let (child, leader) = {
        let work = command.handle(task(json!({})));
        let begun = async { (line_of(&child).await, line_of(&leader).await) };
        tokio::select! {
            outcome = work => panic!("it waits for ever: {outcome:?}"),
            pids = begun => pids,
        }
    };
    eventually("the child has ended", || !runs(&child)).await;
    eventually("the leader is reaped", || !exists(&leader)).await;
}

#[tokio::test]
async fn background_processes_end_with_their_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = folder.path().join("child");
    // The child process holds its parent's pipes.
    let script = r#"sleep 1000 & echo $! >"$1"; echo '{"left": true}'"#;
    let outcome = shell(script, &[&child]).handle(task(json!({}))).await;
    assert_eq!(outcome, Outcome::Done(row(json!({"left": true}))));
    let child = line_of(&child).await;
    eventually("it has ended", || !runs(&child)).await;
}

#[tokio::test]
async fn a_process_outside_the_group_that_holds_the_pipes_delays_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = folder.path().join("child");
    let script = r#"setsid sh -c 'echo $$ >"$1"; exec sleep 1000' child "$1" & while ! [ -s "$1" ]; do :; done; echo '{"left": true}'"#;
    let begun = Instant::now();
    let outcome = shell(script, &[&child]).handle(task(json!({}))).await;
    assert_eq!(outcome, Outcome::Done(row(json!({"left": true}))));
    assert!(begun.elapsed() < Duration::from_secs(50));
    let child = line_of(&child).await;
    assert!(runs(&child), "it is a daemon, and nobody's concern");
    std::process::Command::new("kill").args(["-9", &child]).status().expect("kill runs");
    eventually("it has ended", || !runs(&child)).await;
}

#[tokio::test]
async fn two_hundred_concurrent_programs_leave_no_zombie() {
    let command = shell(r#"read -r line; printf '{"pid": "%s", "line": %s}' $$ "$line""#, &[]);
    let all = (0..200).map(|number| command.handle(task(json!({ "number": number }))));
    for (number, outcome) in join_all(all).await.into_iter().enumerate() {
        let Outcome::Done(fields) = outcome else { panic!("{outcome:?}") };
        assert_eq!(fields["line"], json!({ "number": number }));
        let pid = fields["pid"].as_str().expect("a number");
        assert!(!exists(pid), "process {pid} is not reaped");
    }
}
