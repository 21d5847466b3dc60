//! Frames in a buffer: contents at several sizes, hostile texts, and no panic at any size.

use orchestrator_subsystem::wire::{Cause, SubsystemCauses, TreeSnapshot, Why};
use orchestrator_supervise::is_escaped;
use ratatui::{Terminal, backend::TestBackend, style::Color};
use serde_json::json;

use super::*;
use crate::cli::top::{
    crash::{Crash, NewestCrash},
    details::Details,
    input::Key,
    listing::Listing,
    rows::Sort,
    snapshots::{mailbox, node, of, tree},
};

/// Text that clears the screen, sets colors, ends lines and reverses the direction.
const HOSTILE: &str = "x\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}31m\n\rFORGED\u{202e}\u{200b}\u{0}";

fn state_of(tree: TreeSnapshot) -> State {
    State::new(Listing::new(Sort::Path, String::new()), tree)
}

fn press(state: &mut State, keys: &[Key]) {
    for key in keys {
        state.press(*key);
    }
}

fn type_text(state: &mut State, text: &str) {
    press(state, &text.chars().map(Key::Char).collect::<Vec<_>>());
}

fn frame(state: &mut State, width: u16, height: u16, has_color: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, Palette { has_color }, 100_000)).unwrap();
    terminal
}

fn screen(state: &mut State, width: u16, height: u16) -> Vec<String> {
    let terminal = frame(state, width, height, true);
    let cells = terminal.backend().buffer().content();
    let line = |cells: &[ratatui::buffer::Cell]| {
        cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
    };
    cells.chunks(usize::from(width)).map(line).collect()
}

fn history(values: &[u64]) -> serde_json::Value {
    let at_ms: Vec<usize> = (0..values.len()).map(|at| at * 5_000).collect();
    let series = |metric: &str| json!({ "path": "o/a", "metric": metric, "values": values });
    let metrics = ["mailbox_depth", "mailbox_handled", "handling_p99_us"];
    json!({ "at_ms": at_ms, "series": metrics.map(series) })
}

fn details(path: &str, text: &str) -> Details {
    let cause = Cause {
        kind: "paused".to_owned(),
        path: path.to_owned(),
        text: text.to_owned(),
        since_ms: Some(500),
        evidence: vec![format!("pause by {text}")],
        help: format!("orchestrator resume {text}"),
        affects: Vec::new(),
        routine: false,
    };
    let causes = SubsystemCauses {
        path: path.to_owned(),
        causes: vec![cause],
        last_work: None,
        idle_since_ms: None,
        activity: text.to_owned(),
    };
    let why = Why { at_ms: 0, subsystems: vec![causes] };
    let crash = Crash {
        path: path.to_owned(),
        at_ms: 1_000,
        kind: "panicked".to_owned(),
        message: text.to_owned(),
        frame: Some(format!("queue::read at {text}")),
    };
    let newest = NewestCrash { exit_ms: 1_000, crash: Some(crash) };
    let history = serde_json::from_value(history(&[0, 4, 8, 2])).unwrap();
    Details::new(path.to_owned(), why, &history, Some(newest))
}

#[test]
fn the_tree_has_all_columns_on_a_wide_screen() {
    let mut state = state_of(tree(1_000, 1_000, 10));
    state.take(tree(2_000, 2_000, 110));
    let lines = screen(&mut state, 90, 8);
    assert_eq!(lines[0], "o  up 2s  3 lines  tree by path");
    let expected = [
        "CHILD                          STATE       RESTARTS  DEPTH   RATE/S   P99 LINK",
        "▾ ● o                          running            0      0      0.0",
        "    ● a                        running            0      7    100.0   2ms",
        "    ▲ b                        backing_off        3      0      0.0",
    ];
    assert_eq!(lines[1..5], expected.map(str::to_owned), "{lines:#?}");
    assert!(lines[7].starts_with("? keys  q quit"), "{lines:#?}");
}

#[test]
fn a_screen_of_40_by_10_shows_the_list_the_details_and_the_dialogs() {
    let mut state = state_of(tree(1_000, 1_000, 10));
    state.take(tree(2_000, 2_000, 110));
    let lines = screen(&mut state, 40, 10);
    assert_eq!(lines[1], "CHILD                     DEPTH   RATE/S", "{lines:#?}");
    assert_eq!(lines[3], "    ● a                       7    100.0", "{lines:#?}");
    press(&mut state, &[Key::Down, Key::Enter]);
    state.details = Some(details("o/a", "too busy"));
    let lines = screen(&mut state, 40, 10).join("\n");
    assert!(lines.contains("┌o/a─") && lines.contains("depth        2") && lines.contains('▄'), "{lines}");
    assert!(!lines.contains("CHILD") && lines.contains("running actor, permanent"), "{lines}");
    press(&mut state, &[Key::PageDown; 9]);
    let lines = screen(&mut state, 40, 10).join("\n");
    assert!(lines.contains("message A 1, p99 2ms, waits 1us"), "{lines}");
    assert!(state.drawer.is_some_and(|top| top < 20), "the scroll position is limited: {:?}", state.drawer);
    type_text(&mut state, "rdisk was full");
    let lines = screen(&mut state, 40, 10).join("\n");
    assert!(lines.contains("restart o/a") && lines.contains("reason: disk was full"), "{lines}");
    press(&mut state, &[Key::Enter]);
    let lines = screen(&mut state, 40, 10).join("\n");
    assert!(lines.contains("y: restart it    n: cancel"), "{lines}");
    press(&mut state, &[Key::Escape]);
    type_text(&mut state, "?");
    let lines = screen(&mut state, 40, 10).join("\n");
    assert!(lines.contains("q                 quit") && lines.contains("filter; Esc clears"), "{lines}");
}

#[test]
fn the_list_follows_the_filter_and_the_selection() {
    let mut root = node("o", "running", 0, &json!([]));
    root["children"] = (0..20).map(|n| node(&format!("o/child{n}"), "running", n, &mailbox(n))).collect();
    let mut state = state_of(of(1_000, 1_000, &root));
    press(&mut state, &[Key::End]);
    let lines = screen(&mut state, 60, 10);
    assert!(lines[8].contains("child19") && lines[2].contains("child13"), "{lines:#?}");
    type_text(&mut state, "/child7");
    let lines = screen(&mut state, 60, 10);
    assert!(lines[2].contains('o') && lines[3].contains("child7") && lines[4].is_empty(), "{lines:#?}");
    assert!(lines[0].ends_with("/child7") && lines[9] == "/child7", "{lines:#?}");
    type_text(&mut state, "absent");
    let lines = screen(&mut state, 60, 10);
    assert!(lines[2].starts_with("no child matches child7absent"), "{lines:#?}");
}

#[test]
fn the_drawer_shows_causes_exits_links_and_charts() {
    let mut next = tree(2_000, 2_000, 110);
    let child = &mut next.root.children[0];
    child.last_exit = serde_json::from_value(
        json!({ "kind": "panicked", "reason": "panicked: disk", "at_ms": 1_000, "in_progress": "Push" }),
    )
    .unwrap();
    child.link = serde_json::from_value(json!({
        "kind": "amqp", "endpoint": "h:5672", "state": "down", "attempts": 2, "since_ms": 0, "reason": "refused",
        "retry_in_ms": 300,
    }))
    .unwrap();
    child.waits = serde_json::from_value(
        json!([{ "on": "o/b", "kind": "answer", "count": 2, "blocks": true, "for_ms": 1_500 }]),
    )
    .unwrap();
    child.note = serde_json::from_value(json!({ "text": "row 7 is invalid", "at_ms": 0 })).unwrap();
    let mut state = state_of(tree(1_000, 1_000, 10));
    state.take(next);
    press(&mut state, &[Key::Down, Key::Enter]);
    state.details = Some(details("o/a", "alice"));
    let lines = screen(&mut state, 160, 30).join("\n");
    for text in [
        "link amqp h:5672 down for 2s: refused, again in 300ms",
        "note 2s ago: row 7 is invalid",
        "why o/a: alice (for 1s)",
        "evidence pause by alice",
        "do orchestrator resume alice",
        "waits for o/b: an answer for 1s, 2 times; it handles nothing else meanwhile",
        "crash 1970-01-01T00:00:01.000Z (1s ago) o/a panicked: alice",
        "in queue::read at alice",
        "do orchestrator crashes a",
        "exit 1s ago in Push: panicked: disk",
        "mailbox mailbox 7/9, 110 handled, 0 refused",
    ] {
        assert!(lines.contains(text), "{text:?} is missing:\n{lines}");
    }
    assert!(lines.contains("▁") || lines.contains("█"), "{lines}");
    press(&mut state, &[Key::Down]);
    let lines = screen(&mut state, 160, 30).join("\n");
    assert!(lines.contains("is awaited by o/a: an answer for 1s, 2 times"), "{lines}");
    press(&mut state, &[Key::Up, Key::Up]);
    let lines = screen(&mut state, 160, 30).join("\n");
    assert!(!lines.contains("alice"), "the details of another child are not shown:\n{lines}");
    state.take_details(Err("no such route".to_owned()));
    let lines = screen(&mut state, 160, 30).join("\n");
    assert!(lines.contains("no causes and charts: no such route"), "{lines}");
    state.take_details(Ok(details("o", "bob")));
    let lines = screen(&mut state, 160, 30).join("\n");
    assert!(lines.contains("why o: bob") && !lines.contains("no such route"), "{lines}");
}

#[test]
fn a_lost_connection_and_a_refusal_are_named() {
    let mut state = state_of(tree(1_000, 1_000, 10));
    state.lose("cannot reach http://127.0.0.1:7117: connection refused".to_owned(), 90_000);
    type_text(&mut state, "r");
    press(&mut state, &[Key::Enter, Key::Char('y')]);
    let command = crate::cli::top::prompt::Command {
        verb: crate::cli::top::prompt::Verb::of_key(crate::cli::top::input::Key::Char('p')).unwrap(),
        path: "o/a".to_owned(),
        reason: String::new(),
    };
    state.finish(&command, Err("it cannot be paused".to_owned()));
    let lines = screen(&mut state, 60, 12);
    assert!(lines[1].starts_with("no answer since 00:01:30 UTC (10s), trying again: cannot"), "{lines:#?}");
    assert!(lines[2].contains("connection refused"), "{lines:#?}");
    assert_eq!(lines[10], "pause o/a: it cannot be paused", "{lines:#?}");
}

/// Every text is hostile.
fn hostile() -> State {
    let path = format!("o/{HOSTILE}");
    let mut child = node(&path, HOSTILE, 1, &mailbox(1));
    for (field, value) in [
        ("id", json!(HOSTILE)),
        ("label", json!(HOSTILE)),
        ("kind", json!(HOSTILE)),
        ("restart", json!(HOSTILE)),
        ("strategy", json!(HOSTILE)),
        ("arbiter", json!(HOSTILE)),
        ("durable", json!([HOSTILE])),
        ("in_progress", json!({ "name": HOSTILE, "for_ms": u64::MAX })),
        ("note", json!({ "text": HOSTILE, "at_ms": 5 })),
        (
            "waits",
            json!([{ "on": HOSTILE, "kind": HOSTILE, "count": 2, "blocks": true, "for_ms": u64::MAX }]),
        ),
        ("last_exit", json!({ "kind": HOSTILE, "reason": HOSTILE, "at_ms": 1, "in_progress": HOSTILE })),
        (
            "link",
            json!({ "kind": HOSTILE, "endpoint": HOSTILE, "state": HOSTILE, "attempts": 3, "since_ms": 5,
                "reason": HOSTILE, "retry_in_ms": u64::MAX }),
        ),
        (
            "metrics",
            json!([{ "name": HOSTILE, "unit": HOSTILE, "kind": "gauge", "value": i64::MAX,
                "label": { "name": HOSTILE, "value": HOSTILE } }]),
        ),
    ] {
        child[field] = value;
    }
    child["mailboxes"][0]["name"] = json!(HOSTILE);
    child["mailboxes"][0]["depth"] = json!(u64::MAX);
    child["mailboxes"][0]["messages"][0]["name"] = json!(HOSTILE);
    let mut root = node("o", "running", 0, &json!([]));
    root["children"] = json!([child]);
    let mut state = state_of(of(1_000, u64::MAX, &root));
    press(&mut state, &[Key::Down, Key::Enter]);
    state.details = Some(details(&path, HOSTILE));
    state.lose(HOSTILE.to_owned(), 0);
    state
}

#[test]
fn hostile_texts_are_escaped() {
    let mut state = hostile();
    for form in [Form::Tree, Form::Flat] {
        state.listing.form = form;
        state.list();
        state.message = Some(crate::cli::top::state::Message { text: HOSTILE.to_owned(), is_error: true });
        for (width, height) in [(40, 10), (90, 40), (200, 60)] {
            let lines = screen(&mut state, width, height);
            assert!(!lines.iter().any(|line| line.contains(is_escaped)), "{lines:#?}");
            assert!(!lines.iter().any(|line| line.starts_with("FORGED")), "{lines:#?}");
        }
        let lines = screen(&mut state, 200, 60).join("\n");
        assert!(lines.matches("\\u{1b}").count() > 10, "{lines}");
    }
    type_text(&mut state, "r");
    let lines = screen(&mut state, 90, 30);
    assert!(!lines.iter().any(|line| line.contains(is_escaped)), "{lines:#?}");
}

#[test]
fn no_size_of_the_screen_panics() {
    let mut state = hostile();
    for keys in ["", "/x", "?", "qrreason", "t"] {
        press(&mut state, &[Key::Escape, Key::Escape]);
        type_text(&mut state, keys);
        for (width, height) in (0..30).flat_map(|width| (0..14).map(move |height| (width, height))) {
            screen(&mut state, width.max(1), height.max(1));
        }
    }
}

#[test]
fn without_colors_no_cell_has_one() {
    let mut state = hostile();
    for (has_color, expected) in [(false, false), (true, true)] {
        let terminal = frame(&mut state, 120, 40, has_color);
        let cells = terminal.backend().buffer().content();
        let colored = cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(colored, expected);
    }
}
