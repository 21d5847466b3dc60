//! `orchestrator top` on a terminal: the table in place, a lost connection, and the end.

use std::{os::unix::process::ExitStatusExt, process::Command};

use orchestrator_harness::{PtyProgram, TestEnv};
use rustix::process::Signal;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

fn command(env: &TestEnv) -> Command {
    let mut command = Command::new(env.binary());
    command.args(["top", "--interval", "0.1"]).env("ORCHESTRATOR_SOCKET", env.admin_socket());
    command
}

/// Lines of the last whole frame, without the control sequences that place it.
fn last_frame(printed: &str) -> Option<Vec<&str>> {
    let (whole, _) = printed.rsplit_once("\x1b[J")?;
    let (_, frame) = whole.rsplit_once("\x1b[H")?;
    Some(frame.lines().map(|line| line.trim_end_matches("\x1b[K")).collect())
}

#[test]
fn the_table_fits_the_terminal_and_survives_a_restart_of_the_process() {
    let env = env();
    let instance = env.start();
    let mut top = PtyProgram::start(&command(&env), 60, 9);
    let await_frame = |what: &str, condition: &dyn Fn(&[&str]) -> bool| {
        top.await_printed(what, |printed| last_frame(printed).is_some_and(|lines| condition(&lines)));
    };
    await_frame("a frame that fits", &|lines| {
        lines[0].starts_with("up ")
            && lines[1].starts_with("CHILD ")
            && lines.len() == 8
            && lines[7].ends_with(" more lines")
            && lines.iter().all(|line| line.chars().count() <= 60)
    });
    instance.kill_nine();
    await_frame("the error above the last table", &|lines| {
        lines[0].starts_with("cannot reach") && lines[1].starts_with("up ") && lines[2].starts_with("CHILD ")
    });
    let _again = env.start();
    await_frame("the table again", &|lines| lines[0].starts_with("up "));
    // Ctrl-C.
    top.type_text("\x03");
    assert_eq!(top.wait().signal(), Some(Signal::INT.as_raw()));
}

#[test]
fn a_terminal_that_moves_no_cursor_gets_one_table_after_the_other() {
    let env = env();
    let _instance = env.start();
    let mut command = command(&env);
    let top = PtyProgram::start(command.env("TERM", "dumb"), 80, 24);
    top.await_printed("two tables", |printed| printed.matches("CHILD ").count() > 1);
    assert!(!top.printed().contains('\x1b'), "{}", top.printed());
}

#[test]
fn a_failed_start_is_an_error() {
    let env = env();
    let mut top = PtyProgram::start(&command(&env), 80, 24);
    assert_eq!(top.wait().code(), Some(3));
    top.await_text("cannot reach");
}
