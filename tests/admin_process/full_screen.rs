//! `orchestrator top` on a terminal: commands, a lost connection, signals, and the terminal's modes at the
//! end.

use std::process::Command;

use orchestrator_harness::{PtyProgram, TestEnv, eventually};
use rustix::process::Signal;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

fn command(env: &TestEnv) -> Command {
    let mut command = Command::new(env.binary());
    command
        .args(["top", "--interval", "0.1"])
        .env("ORCHESTRATOR_SOCKET", env.admin_socket())
        .env_remove("NO_COLOR");
    command
}

/// Starts `top` and waits for its first frame.
fn start(env: &TestEnv) -> PtyProgram {
    let top = PtyProgram::start(&command(env), 110, 36);
    top.await_text("fetcher_watcher");
    assert!(top.is_full_screen() && top.is_cursor_hidden(), "{}", top.screen());
    assert_ne!(top.modes(), top.modes_before(), "the terminal is in raw mode");
    top
}

fn assert_restored(top: &PtyProgram) {
    assert_eq!(top.modes(), top.modes_before());
    eventually("the shell's screen", || !top.is_full_screen() && !top.is_cursor_hidden());
}

#[test]
fn a_child_is_found_explained_and_restarted() {
    let env = env();
    let _instance = env.start();
    let mut top = start(&env);
    top.type_text("/fetcher_w");
    top.await_screen("the filtered list", |screen| {
        screen.contains("● fetcher_watcher") && !screen.contains("housekeeper")
    });
    top.type_text("\rG\r");
    top.await_text("restarts 0, ");
    // The charts and causes come from the history and from `why`.
    top.await_text("rate/s");
    top.await_text("running actor, permanent, incarnation 1");
    top.type_text("r");
    top.await_text("restart orchestrator/queue/fetcher_watcher");
    top.type_text("New disk\r");
    top.await_text("y: restart it    n: cancel");
    top.type_text("y");
    top.await_text("; 1 by command");
    top.await_text("incarnation 2");
    top.await_text("exit ");
    let (code, out, err) = env.cli(&["tail", "--no-follow", "-n", "1000", "--text", "new DISK"]);
    assert!(code == 0 && out.lines().count() == 1, "{code} {out} {err}");
    assert!(out.contains("commanded") && out.contains("reason=\"New disk\""), "{out}");
    top.type_text("q");
    assert_eq!(top.wait().code(), Some(0));
    assert_restored(&top);
}

#[test]
fn the_details_of_a_crashed_child_show_its_newest_report() {
    let env = env();
    let _instance = env.start();
    let mut top = start(&env);
    top.type_text("/fetcher_w\rG\r");
    top.await_text("running actor, permanent, incarnation 1");
    assert!(!top.screen().contains("crash "), "{}", top.screen());
    env.inject_panic("queue/fetcher_watcher");
    // The lines are wrapped.
    top.await_text("crash 2");
    top.await_text("orchestrator/queue/fetcher_watcher panicked: injected");
    top.await_text("orchestrator_supervise::");
    top.await_text("do orchestrator crashes queue/fetcher_watcher");
    top.type_text("q");
    assert_eq!(top.wait().code(), Some(0));
    assert_restored(&top);
}

#[test]
fn a_refused_command_says_why() {
    let env = env();
    let _instance = env.start();
    let mut top = start(&env);
    top.type_text("/housekeeper\rGp");
    top.await_text("pause orchestrator/queue/housekeeper");
    top.type_text("\r");
    top.await_text("reason: none");
    top.type_text("y");
    top.await_text("pause orchestrator/queue/housekeeper: ");
    let (code, _, refusal) = env.cli(&["pause", "queue/housekeeper"]);
    assert_eq!(code, 5, "{refusal}");
    let reason = refusal.trim().trim_start_matches("orchestrator: ");
    let first = reason.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
    top.await_text(&first);
    top.type_text("\x03");
    assert_eq!(top.wait().code(), Some(0));
    assert_restored(&top);
}

#[test]
fn a_restart_of_the_process_is_shown_and_survived() {
    let env = env();
    let instance = env.start();
    let mut top = start(&env);
    instance.kill_nine();
    top.await_text("no answer since ");
    assert!(top.screen().contains("fetcher_watcher"), "the last tree stays:\n{}", top.screen());
    let _again = env.start();
    top.await_screen("the tree without a banner", |screen| {
        screen.contains("fetcher_watcher") && !screen.contains("no answer")
    });
    top.type_text("q");
    assert_eq!(top.wait().code(), Some(0));
    assert_restored(&top);
}

#[test]
fn signals_that_end_it_restore_the_terminal() {
    let env = env();
    let _instance = env.start();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut top = start(&env);
        top.signal(signal);
        assert_eq!(top.wait().code(), Some(0), "{signal:?}");
        assert_restored(&top);
    }
}

#[test]
fn a_suspension_gives_the_terminal_back_until_it_is_continued() {
    let env = env();
    let _instance = env.start();
    let mut top = start(&env);
    for by_key in [true, false] {
        if by_key {
            top.type_text("\x1a")
        } else {
            top.signal(Signal::TSTP)
        }
        eventually("the process to stop", || top.is_stopped());
        assert_restored(&top);
        top.signal(Signal::CONT);
        top.await_text("fetcher_watcher");
        eventually("the full screen", || top.is_full_screen() && top.modes() != top.modes_before());
    }
    top.type_text("?");
    top.await_text("restart, stop, start, pause, resume");
    top.type_text("qq");
    assert_eq!(top.wait().code(), Some(0));
    assert_restored(&top);
}

#[test]
fn a_resized_terminal_of_40_by_10_shows_the_list() {
    let env = env();
    let _instance = env.start();
    let mut top = start(&env);
    top.await_text("sqlite up");
    top.resize(40, 10);
    top.await_screen("a narrow list", |screen| {
        let lines: Vec<&str> = screen.lines().collect();
        lines.len() == 10 && lines[1].ends_with("DEPTH   RATE/S") && lines[9].starts_with("? keys")
    });
    top.type_text("G\r");
    top.await_text("┌orchestrator/queue/inotify");
    top.resize(110, 36);
    top.type_text("\r");
    top.await_text("LINK");
    top.type_text("q");
    assert_eq!(top.wait().code(), Some(0));
    assert_restored(&top);
}

#[test]
fn no_color_turns_colors_off() {
    let env = env();
    let _instance = env.start();
    let mut plain = command(&env);
    let plain = PtyProgram::start(plain.env("NO_COLOR", "1"), 110, 36);
    plain.await_text("sqlite up");
    assert!(!plain.has_colors());
    assert!(start(&env).has_colors(), "without NO_COLOR there are colors");
}

#[test]
fn a_failed_start_leaves_the_terminal_alone() {
    let env = env();
    let mut top = PtyProgram::start(&command(&env), 80, 24);
    assert_eq!(top.wait().code(), Some(3));
    top.await_text("cannot reach");
    assert_restored(&top);
}
