//! Snapshots, metrics, links and events.

use std::time::Duration;

use crate::probe::*;
use orchestrator_observe::{
    Event, EventKind, EventLog, LABELS_MAX, Link, MetricKind, MetricSnapshot, OTHER_LABEL,
};
use orchestrator_supervise::{
    ChildRef, ChildSpec, Command, Origin, Restart, Strategy, SupervisorSpec,
    testing::{TestTree, event_after, eventually},
};
use orchestrator_text::TEXT_MAX;
use tokio::sync::oneshot;

fn spec(child: ChildSpec) -> SupervisorSpec {
    SupervisorSpec::new(Strategy::RestForOne).limits(lenient()).child(child)
}

#[test]
fn the_snapshot_shows_the_specification() {
    let (mailbox, child) = journaling("a", &Journal::default());
    let child = child.label("directory_1").restart(Restart::Transient).pausable();
    let pool = ChildSpec::pool("pool", 2, |_| idle_task());
    TestTree::run(spec(child).child(pool), async |tree| {
        mailbox.ask(act(|_, cx| cx.vitals().link("redis", "localhost:6379").up()), LONG).await.unwrap();
        mailbox.tell(boom()).unwrap();
        until_incarnation(&tree, "a", 2).await;
        until_incarnation(&tree, "pool", 2).await;
        let snapshot = tree.snapshot();
        assert!(snapshot.seq > 0 && snapshot.captured_at_ms >= snapshot.root.started_ms);
        let root = &snapshot.root;
        assert_eq!((root.kind.as_str(), root.strategy.as_deref()), ("supervisor", Some("rest_for_one")));
        assert_eq!((root.intensity, root.period_ms), (Some(1000), Some(60_000)));
        let a = root.find("test/a").unwrap();
        assert_eq!((a.id.as_str(), a.label.as_deref(), a.kind.as_str()), ("a", Some("directory_1"), "actor"));
        assert_eq!((a.restart.as_str(), a.pausable, a.restarts), ("transient", true, 1));
        assert_eq!(a.link.as_ref().unwrap().endpoint, "localhost:6379");
        let mut paths = Vec::new();
        root.walk(&mut |node| paths.push(node.path.as_str()));
        assert_eq!(paths, ["test", "test/a", "test/pool", "test/pool/0", "test/pool/1"]);
    });
}

#[test]
fn attached_values_are_found_by_their_type() {
    let (_, child) = journaling("a", &Journal::default());
    let (_, other) = journaling("b", &Journal::default());
    let tree = spec(child.attach(5_u32).attach("five")).child(other.attach("six"));
    TestTree::run(tree, async |tree| {
        assert_eq!(tree.attached::<u32>("a").as_deref(), Some(&5));
        assert_eq!(tree.attached::<&str>("test/a").as_deref(), Some(&"five"));
        assert_eq!((tree.attached::<u32>("b"), tree.attached::<&str>("nowhere")), (None, None));
        let all = tree.all_attached::<&str>();
        let all: Vec<_> = all.iter().map(|(path, value)| (path.as_str(), **value)).collect();
        assert_eq!(all, [("test/a", "five"), ("test/b", "six")]);
    });
}

#[test]
fn a_reference_names_its_child_from_the_start_on_and_over_restarts() {
    let (mailbox, child) = journaling("a", &Journal::default());
    let reference = ChildRef::default();
    assert_eq!((reference.path(), reference.link()), ("", None));
    TestTree::run(spec(child.reference(&reference)), async |tree| {
        assert_eq!((reference.path(), reference.link()), ("test/a", None));
        mailbox.tell(boom()).unwrap();
        until_incarnation(&tree, "a", 2).await;
        mailbox.ask(act(|_, cx| cx.vitals().link("redis", "localhost:6379").up()), LONG).await.unwrap();
        assert!(matches!(reference.link(), Some(Link::Up { .. })));
    });
}

#[test]
fn work_in_progress_is_shown_until_it_is_done() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        let (open, opened) = oneshot::channel::<()>();
        let gate = Do(Box::new(|_, cx| {
            // Neither a finished nor a running work item hides the message.
            drop(cx.vitals().begin_work("part"));
            let part = cx.vitals().begin_work("another part");
            let work = async move {
                let _part = part;
                opened.await
            };
            cx.atomically(work, |_, _, _| ())
        }));
        mailbox.tell(gate).unwrap();
        let in_progress = || tree.node("a").unwrap().in_progress;
        eventually("it is in progress", || in_progress().is_some_and(|work| work.name == "Do")).await;
        drop(open);
        eventually("it is done", || in_progress().is_none()).await;
    });
}

#[test]
fn waiting_and_handling_are_counted_per_message_type() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        for n in 0..5 {
            ping(&mailbox, n).await.unwrap();
        }
        let slow =
            Do(Box::new(|_, cx| cx.atomically(tokio::time::sleep(Duration::from_millis(3)), |_, (), _| ())));
        mailbox.ask(slow, LONG).await.unwrap();
        let shown = tree.node("a").unwrap().mailboxes.remove(0);
        assert_eq!((shown.handled, shown.high_water, shown.depth), (6, 1, 0));
        let count = |name: &str| shown.messages.iter().find(|stats| stats.name == name).unwrap();
        assert_eq!((count("Ping").count, count("Do").count), (5, 1));
        assert!(count("Do").handling_us[0] >= 2048, "{:?}", count("Do"));
        assert!(count("Ping").wait_us[0] > 0 && count("Ping").wait_us[0] <= count("Ping").wait_us[2]);
    });
}

#[test]
fn metrics_survive_restarts() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        for round in 1..4 {
            let count = act(|_, cx| {
                cx.vitals().register("rows", "rows", MetricKind::Counter, "Rows written.").add(5);
                cx.vitals().register("open_files", "files", MetricKind::Gauge, "Files open.").set(2);
            });
            mailbox.ask(count, LONG).await.unwrap();
            let metrics = tree.node("a").unwrap().metrics;
            let values: Vec<_> = metrics.iter().map(|metric| (metric.name.as_str(), metric.value)).collect();
            assert_eq!(values, [("rows", 5 * round), ("open_files", 2)]);
            command(&tree, "a", Command::Restart).await;
        }
    });
}

#[test]
fn the_last_note_survives_a_restart_and_is_limited() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        assert_eq!(tree.node("a").unwrap().note, None);
        let note = act(|_, cx| {
            cx.vitals().note("the first");
            cx.vitals().note("é".repeat(1_000));
        });
        mailbox.ask(note, LONG).await.unwrap();
        command(&tree, "a", Command::Restart).await;
        let note = tree.node("a").unwrap().note.unwrap();
        let text = format!("{} (1526 bytes left out)", "é".repeat(237));
        assert_eq!((note.text, note.at_ms > 0), (text, true));
    });
}

#[test]
fn timings_are_separate_by_label_and_survive_restarts() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        for round in 1..4 {
            let count = act(|_, cx| {
                let get = cx.vitals().register_timing("call_duration", "Time of a call.", ("method", "get"));
                let add = cx.vitals().register_timing("call_duration", "Time of a call.", ("method", "add"));
                get.record(Duration::from_micros(900));
                [1, 900].iter().for_each(|us| add.record(Duration::from_micros(*us)));
            });
            mailbox.ask(count, LONG).await.unwrap();
            let shown = tree.node("a").unwrap().timings;
            let shown: Vec<_> = shown.iter().map(|one| (one.value.as_str(), one.count, one.us)).collect();
            assert_eq!(shown, [("get", round, [1024; 3]), ("add", 2 * round, [1, 1024, 1024])]);
            command(&tree, "a", Command::Restart).await;
        }
    });
}

#[test]
fn labelled_metrics_are_separate_up_to_a_limit() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        let count = act(|_, cx| {
            let of = |peer: &str| {
                cx.vitals().register_labelled(
                    "events",
                    "events",
                    MetricKind::Counter,
                    "Events sent.",
                    ("worker", peer),
                )
            };
            (0..LABELS_MAX).for_each(|n| of(&format!("w{n}")).add(1));
            of("late").add(3);
            of("later").add(4);
            of("w7").add(1);
            cx.vitals().unregister_labelled(("worker", "w9"));
            of("later").add(5);
        });
        mailbox.ask(count, LONG).await.unwrap();
        let metrics = tree.node("a").unwrap().metrics;
        let value = |peer: &str| {
            let of = |one: &&MetricSnapshot| one.label.as_ref().is_some_and(|label| label.value == peer);
            metrics.iter().find(of).map(|one| one.value)
        };
        assert_eq!(metrics.len(), LABELS_MAX + 1);
        assert_eq!([value("w7"), value("w8"), value("w9")], [Some(2), Some(1), None]);
        assert_eq!([value(OTHER_LABEL), value("late"), value("later")], [Some(7), None, Some(5)]);
    });
}

#[test]
fn an_idle_link_is_neither_up_nor_down() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        let rest = act(|_, cx| {
            let link = cx.vitals().link("zmq", "detector:9999");
            link.down("connection refused", Duration::from_secs(1));
            link.idle();
        });
        mailbox.ask(rest, LONG).await.unwrap();
        let link = tree.node("a").unwrap().link.unwrap();
        assert_eq!((link.state.name(), link.reason), ("idle", None));
    });
}

#[test]
fn links_know_the_longest_delay_of_the_root() {
    let (mailbox, child) = journaling("a", &Journal::default());
    let root = spec(ChildSpec::supervisor("branch", spec(child))).link_retry_max(LONG);
    TestTree::run(root, async |_tree| {
        let read = act(|_, cx| assert_eq!(cx.vitals().link("amqp", "broker:5672").retry_max, LONG));
        mailbox.ask(read, LONG).await.unwrap();
    });
}

#[test]
fn a_link_event_is_recorded_only_for_a_change() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        let seq = tree.event_log().newest();
        let report = act(|_, cx| {
            let link = cx.vitals().link("amqp", "broker:5672");
            for attempt in 1..4 {
                link.connecting(attempt);
                link.down("connection refused", Duration::from_secs(1));
            }
            link.down("wrong password", Duration::from_secs(5));
            link.up();
            link.up();
            link.down("connection refused", Duration::from_secs(9));
        });
        mailbox.ask(report, LONG).await.unwrap();
        let down = |reason: &str| EventKind::LinkDown { reason: reason.to_owned() };
        let news: Vec<_> = tree.events(seq).into_iter().map(|event| event.kind).collect();
        let refused = down("connection refused");
        assert_eq!(news, [refused.clone(), down("wrong password"), EventKind::LinkUp, refused]);
        let link = tree.node("a").unwrap().link.unwrap();
        assert_eq!((link.state.name(), link.reason.as_deref()), ("down", Some("connection refused")));
        assert!(link.retry_in_ms.unwrap() > 5_000);
    });
}

#[test]
fn a_silent_peer_is_an_event_once_and_its_link_is_unanswered() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        let link = tree.vitals("a").unwrap().link("amqp", "broker:5672");
        link.up();
        let seq = tree.event_log().newest();
        let request = link.request_within(Duration::ZERO);
        for _ in 0..2 {
            let link = tree.node("a").unwrap().link.unwrap();
            assert_eq!(
                (link.state.name(), link.reason.as_deref()),
                ("unanswered", Some("has not answered for 0 s"))
            );
        }
        link.down("connection lost", Duration::from_secs(9));
        let silent = tree.node("a").unwrap().link.unwrap();
        assert_eq!(silent.reason.as_deref(), Some("has not answered for 0 s; connection lost"));
        assert!(silent.retry_in_ms.unwrap() > 5_000);
        link.up();
        drop(request);
        assert_eq!(tree.node("a").unwrap().link.unwrap().state.name(), "up");
        let request = link.request_within(Duration::ZERO);
        assert_eq!(tree.node("a").unwrap().link.unwrap().state.name(), "unanswered");
        drop(request);
        assert_eq!(tree.node("a").unwrap().link.unwrap().state.name(), "up");
        let news: Vec<_> = tree.events(seq).into_iter().map(|event| event.kind.name()).collect();
        assert_eq!(news, ["link_unanswered", "link_down", "link_up", "link_unanswered", "link_up"]);
        // The requests of an incarnation end with it.
        let _open = link.request_within(Duration::ZERO);
        mailbox.tell(boom()).unwrap();
        until_incarnation(&tree, "a", 2).await;
        assert_eq!(tree.node("a").unwrap().link.unwrap().state.name(), "connecting");
    });
}

#[test]
fn peer_texts_are_limited_and_escaped() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        let said = || format!("no\n\u{1b}[31m\u{202e}{}", "x".repeat(3_000_000));
        let report = act(move |_, cx| {
            cx.vitals().link("postgres", "db:5432").down(said(), Duration::from_secs(1));
            cx.vitals().note(said());
        });
        mailbox.ask(report, LONG).await.unwrap();
        let node = tree.node("a").unwrap();
        let reason = node.link.as_ref().unwrap().reason.clone().unwrap();
        assert!(reason.starts_with(r"no\n\u{1b}[31m\u{202e}xxx"), "{reason}");
        assert!(reason.ends_with("bytes left out)") && reason.len() <= TEXT_MAX, "{reason}");
        let seq = tree.event_log().newest();
        mailbox.tell(act(|_, _| panic!("\u{202e}{}", "y".repeat(3_000_000)))).unwrap();
        until_incarnation(&tree, "a", 2).await;
        assert!(tree.events(seq).iter().any(|event| event.kind.name() == "exited"));
        let shown = format!("{:?}", (tree.snapshot(), tree.events(0)));
        assert!(shown.len() < 20_000, "{} bytes", shown.len());
        let node = tree.node("a").unwrap();
        let texts = [reason, node.note.unwrap().text, node.last_exit.unwrap().reason];
        assert!(texts.iter().all(|text| !text.contains('\u{202e}')), "{texts:?}");
        let origin = Origin { by: "a\nb".to_owned(), reason: "z".repeat(9_000) };
        tree.command("a", Command::Restart, &origin).await.unwrap();
        let commanded = |event: &Event| match &event.kind {
            EventKind::Commanded { by, reason, .. } => by == r"a\nb" && reason.len() <= TEXT_MAX,
            _ => false,
        };
        event_after(&tree, seq, "the command", commanded).await;
    });
}

#[test]
fn a_link_does_not_stay_up_when_its_child_ends() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        let up = || act(|_, cx| cx.vitals().link("amqp", "broker:5672").up());
        mailbox.ask(up(), LONG).await.unwrap();
        mailbox.tell(boom()).unwrap();
        until_incarnation(&tree, "a", 2).await;
        assert_eq!(tree.node("a").unwrap().link.unwrap().state.name(), "connecting");
        let seq = tree.event_log().newest();
        mailbox.ask(up(), LONG).await.unwrap();
        event_after(&tree, seq, "link up", |event| event.kind == EventKind::LinkUp).await;
    });
}

/// Many threads write; the number of the newest event never decreases.
#[test]
fn a_waiting_reader_misses_no_event() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(spec(child), async |tree| {
        let vitals = tree.vitals("a").unwrap();
        mailbox.ask(act(|_, cx| drop(cx.vitals().link("x", "y"))), LONG).await.unwrap();
        let (writers, rounds) = (4, 500);
        let log: EventLog = tree.event_log().clone();
        let first = log.newest();
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let link = vitals.link("x", "y");
                scope.spawn(move || {
                    (0..rounds).for_each(|n| link.down(format!("{writer} {n}"), Duration::ZERO));
                });
            }
            while log.newest() < first + writers * rounds {
                let newest = log.newest();
                assert!(log.newest() >= newest, "it only grows");
                std::thread::yield_now();
            }
        });
        assert_eq!(log.since(first).len() as u64, writers * rounds);
    });
}
