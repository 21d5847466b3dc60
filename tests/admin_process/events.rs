//! Event stream of the real binary: many readers, and a reader that reconnects.

use std::thread;

use orchestrator_harness::{EventReader, Reply, TestEnv, eventually, open_event_readers, rounds};

const MAX_READERS: usize = 16;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=127.0.0.1:0")
}

#[test]
fn a_reconnected_reader_receives_every_missed_event() {
    let env = env();
    let _instance = env.start();
    let mut events = EventReader::unix(&env.admin_socket(), "", &[]).expect("a stream");
    env.actor_command("queue/inotify", "pause");
    let last = events.find(|event| event.event == "paused").id;
    drop(events);
    env.actor_command("queue/inotify", "resume");
    env.actor_command("queue/fetcher_watcher", "restart");
    let header = format!("Last-Event-ID: {last}");
    let mut events = EventReader::tcp(env.admin_tcp(), "", &[&header]).expect("a stream");
    let mut expected = last + 1;
    let mut resumed = false;
    loop {
        let event = events.next_event().expect("an open stream");
        assert_eq!(event.id, expected, "{event:?}");
        expected += 1;
        resumed |= event.event == "resumed";
        if event.event == "commanded" && event.data["verb"] == "restart" {
            break;
        }
    }
    assert!(resumed);
    let filter = format!("?after={last}&path=queue/fetcher_watcher&kind=commanded");
    let mut events = EventReader::unix(&env.admin_socket(), &filter, &[]).expect("a stream");
    assert_eq!(events.next_event().expect("an event").data["verb"], "restart");
}

#[test]
fn event_readers_are_limited_and_workers_stay_served() {
    let env = env().set(&format!("admin.max_event_clients={MAX_READERS}"));
    let instance = env.start();
    let address = env.admin_tcp();
    drop(EventReader::tcp(address, "", &[]).expect("a stream"));
    eventually("the stream to be released", || env.metric("admin", "event_clients") == 0);
    let memory = instance.memory("VmRSS");

    // Readers come in floods of as many as this process has descriptors for; each keeps its stream until the
    // flood ends. The latency of workers is measured by `orchestrator-bench connection-flood`; here every
    // request must succeed.
    let readers = rounds("ORCHESTRATOR_EVENT_CLIENTS", 10_000) as usize;
    let (mut served, mut refused, mut most) = (0, 0, 0);
    let mut worker = env.worker();
    while served + refused < readers {
        let (flood, answers) = thread::scope(|scope| {
            let flood = scope.spawn(|| open_event_readers(address, 400, MAX_READERS));
            let mut answers = 0;
            while !flood.is_finished() {
                assert_eq!(worker.ready(), Reply::NoJobs);
                answers += 1;
            }
            (flood.join().expect("a flood that ends"), answers)
        });
        assert!(answers > 0, "the worker was not served during the flood");
        assert_eq!(flood.failed, 0, "responses that are neither a stream nor a refusal");
        assert!(flood.streams.len() <= MAX_READERS, "{} readers at once", flood.streams.len());
        most = most.max(flood.streams.len());
        served += flood.streams.len();
        refused += flood.refused;
        drop(flood.streams);
        eventually("the streams to be released", || env.metric("admin", "event_clients") == 0);
    }
    let grown = instance.memory("VmRSS").saturating_sub(memory);
    eprintln!("{served} served, {refused} refused, {most} at once; {} KiB more", grown >> 10);
    assert_eq!(most, MAX_READERS, "the limit of readers was not reached");
    assert_eq!(env.metric("admin", "refused_event_limit") as usize, refused);
    assert!(grown < 16 << 20, "{grown} bytes more");
    assert_eq!(env.node("admin")["restarts"], 0);
    assert!(EventReader::tcp(address, "", &[]).is_ok_and(|reader| reader.status == 200));
    assert!(instance.terminate().success());
}
