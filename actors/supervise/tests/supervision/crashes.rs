//! Crash reports: position, message type and last events of panics and faults of actors, tasks and threads.

use std::{panic::Location, time::Duration};

use crate::probe::*;
use orchestrator_observe::{CrashReport, Event};
use orchestrator_supervise::{
    AskError, ChildSpec, Command, Factory, Fault, StartCx, Strategy, SupervisorSpec, Tree, testing::TestTree,
};

fn tree(children: impl IntoIterator<Item = ChildSpec>) -> SupervisorSpec {
    children
        .into_iter()
        .fold(SupervisorSpec::new(Strategy::OneForOne).limits(lenient()), SupervisorSpec::child)
}

/// Newest first.
fn reports(tree: &Tree, path: &str) -> Vec<CrashReport> {
    let (reports, older) = tree.crash_log().reports(path, usize::MAX);
    assert_eq!(older, 0);
    reports
}

fn report(tree: &Tree, path: &str) -> CrashReport {
    let mut reports = reports(tree, path);
    assert_eq!(reports.len(), 1, "{reports:#?}");
    reports.remove(0)
}

fn names(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| format!("{} {}", event.path, event.kind.name())).collect()
}

/// Line of the caller, as a location of this file.
#[track_caller]
fn here() -> String {
    format!("{}:{}:", file!(), Location::caller().line())
}

#[test]
fn a_panic_in_a_handler_has_its_position_message_type_and_last_events() {
    let (mailbox, child) = probe("a", &ProbeConfig::default());
    let (_other, sibling) = probe("b", &ProbeConfig::default());
    TestTree::run(tree([child, sibling]), async |tree| {
        command(&tree, "b", Command::Restart).await;
        let (action, line) = (act(|_, _| panic!("secret \u{1b}[2J")), here());
        assert_eq!(mailbox.ask(action, LONG).await, Err(AskError::Lost));
        until_incarnation(&tree, "a", 2).await;
        let report = report(&tree, "test/a");
        assert_eq!((report.kind.as_str(), report.message.as_str()), ("panicked", "secret \\u{1b}[2J"));
        assert_eq!((report.incarnation, report.in_progress.as_deref()), (1, Some("Do")));
        let location = report.location.as_deref().expect("a location");
        assert!(location.starts_with(&line), "{location} is not in {line}");
        assert!(report.backtrace[0].contains("a_panic_in_a_handler"), "{:#?}", report.backtrace);
        assert!(report.backtrace[0].contains("crashes.rs:"), "{:#?}", report.backtrace);
        assert!(report.backtrace.iter().any(|line| line.contains("Probe")), "{:#?}", report.backtrace);
        // The events of the branch before the end, with those of siblings.
        let events = names(&report.events);
        assert_eq!(events.first().map(String::as_str), Some("test/a started"), "{events:?}");
        assert_eq!(events.last().map(String::as_str), Some("test/b commanded"), "{events:?}");
        assert!(!events.contains(&"test/a exited".to_owned()), "{events:?}");
        let exit = tree.node("a").expect("the child").last_exit.expect("an exit");
        assert_eq!((report.at_ms, report.in_progress), (exit.at_ms, exit.in_progress));
    });
}

#[test]
fn twenty_events_and_ten_reports_are_kept() {
    let (mailbox, child) = probe("a", &ProbeConfig::default());
    TestTree::run(tree([child]), async |tree| {
        for incarnation in 2..=12 {
            assert_eq!(mailbox.ask(boom(), LONG).await, Err(AskError::Lost));
            until_incarnation(&tree, "a", incarnation).await;
        }
        let reports = reports(&tree, "test/a");
        let incarnations: Vec<_> = reports.iter().map(|report| report.incarnation).collect();
        assert_eq!(incarnations, (2..=11).rev().collect::<Vec<_>>());
        assert_eq!(reports[0].events.len(), 20);
    });
}

#[test]
fn panics_of_futures_timers_and_tasks_have_their_position() {
    let (mailbox, child) = probe("a", &ProbeConfig::default());
    let task = Factory::task(|cx: StartCx| async move {
        tokio::task::yield_now().await;
        let _work = cx.vitals.begin_work("batch");
        assert!(cx.incarnation > 1, "task boom");
        cx.stop.cancelled().await;
        Ok(())
    });
    TestTree::run(tree([child, ChildSpec::worker("task", task)]), async |tree| {
        let actions = [
            act(|_, cx| cx.spawn(async { panic!("future boom") }, |_, (), _| ())),
            act(|_, cx| cx.after(Duration::from_millis(1), |_, _| panic!("timer boom"))),
            Do(Box::new(|_, cx| cx.atomically(async {}, |_, (), _| panic!("answer boom")))),
        ];
        for (incarnation, action) in (2..).zip(actions) {
            mailbox.tell(action).expect("room");
            until_incarnation(&tree, "a", incarnation).await;
        }
        until_incarnation(&tree, "task", 2).await;
        let mut all = reports(&tree, "test/a");
        all.push(report(&tree, "test/task"));
        let found: Vec<_> =
            all.iter().map(|report| (report.message.as_str(), report.in_progress.as_deref())).collect();
        let expected = [
            ("answer boom", Some("Do")),
            ("timer boom", None),
            ("future boom", None),
            ("task boom", Some("batch")),
        ];
        assert_eq!(found, expected);
        for report in &all {
            let location = report.location.as_deref().expect("a location");
            assert!(location.starts_with(file!()), "{location}");
            assert!(report.backtrace[0].contains("crashes.rs:"), "{:#?}", report.backtrace);
        }
    });
}

#[test]
fn a_panic_of_a_thread_has_its_position() {
    let thread = Factory::thread(|cx: StartCx| {
        let _work = cx.vitals.begin_work("commit");
        assert!(cx.incarnation > 1, "boom");
        orchestrator_supervise::block_on(None, cx.stop.cancelled());
        Ok(())
    });
    TestTree::run(tree([ChildSpec::worker("a", thread)]), async |tree| {
        until_incarnation(&tree, "a", 2).await;
        let report = report(&tree, "test/a");
        assert_eq!((report.message.as_str(), report.in_progress.as_deref()), ("boom", Some("commit")));
        assert!(report.location.is_some_and(|at| at.starts_with(file!())));
        assert!(report.backtrace[0].contains("a_panic_of_a_thread"), "{:#?}", report.backtrace);
    });
}

#[test]
fn a_fault_is_reported_and_a_requested_end_is_not() {
    let (mailbox, child) = probe("a", &ProbeConfig::default());
    TestTree::run(tree([child]), async |tree| {
        command(&tree, "a", Command::Restart).await;
        mailbox.tell(act(|_, cx| cx.stop())).expect("room");
        until_incarnation(&tree, "a", 3).await;
        assert_eq!(reports(&tree, "test/a"), []);
        mailbox.tell(act(|_, cx| cx.fail(Fault::new("tired")))).expect("room");
        until_incarnation(&tree, "a", 4).await;
        let report = report(&tree, "test/a");
        assert_eq!((report.kind.as_str(), report.message.as_str()), ("failed", "tired"));
        assert_eq!((report.location, report.backtrace), (None, Vec::new()));
    });
}

#[test]
fn the_position_is_that_of_the_reported_panic() {
    let config = ProbeConfig {
        on_stop: Some(|| panic!("stopped boom")),
        on_drop: Some(|| panic!("drop boom")),
        ..ProbeConfig::default()
    };
    let (mailbox, child) = probe("a", &config);
    TestTree::run(tree([child]), async |tree| {
        let (action, line) = (act(|_, _| panic!("boom")), here());
        mailbox.tell(action).expect("room");
        until_incarnation(&tree, "a", 2).await;
        let first = report(&tree, "test/a");
        assert!(first.location.is_some_and(|at| at.starts_with(&line)));
        // A panic that the child catches is no crash, and its position is not used for another end.
        mailbox
            .tell(act(|_, cx| {
                let caught = std::panic::catch_unwind(|| panic!("tired"));
                assert!(caught.is_err());
                cx.fail(Fault::new("no room"));
            }))
            .expect("room");
        until_incarnation(&tree, "a", 3).await;
        let second = &reports(&tree, "test/a")[0];
        assert_eq!((second.message.as_str(), second.location.as_deref()), ("no room", None));
    });
}

#[test]
fn an_injected_panic_is_reported_for_every_kind_of_child() {
    let (_mailbox, actor) = probe("actor", &ProbeConfig::default());
    let thread = Factory::thread(|cx: StartCx| {
        while !cx.stop.is_cancelled() {
            drop(cx.vitals.begin_work("turn"));
            std::thread::yield_now();
        }
        Ok(())
    });
    let children = [actor, ChildSpec::worker("task", idle_task()), ChildSpec::worker("thread", thread)];
    TestTree::run(tree(children), async |tree| {
        for path in ["test/actor", "test/task", "test/thread"] {
            command(&tree, path, Command::Panic).await;
            until_incarnation(&tree, path, 2).await;
            let report = report(&tree, path);
            assert_eq!(report.message, "injected panic", "{path}");
            assert!(report.location.is_some() && !report.backtrace.is_empty(), "{path}");
        }
    });
}
