//! The stream of events of the real binary: a crowd of readers, one that comes back.

use std::thread;

use orchestrator_harness::{EventReader, Reply, TestEnv, eventually, rounds, wave};

const SEATS: usize = 16;

fn site() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=127.0.0.1:0")
}

#[test]
fn who_comes_back_misses_nothing() {
    let site = site();
    let _instance = site.start();
    let mut events = EventReader::unix(&site.admin_socket(), "", &[]).expect("a stream");
    site.actor_command("queue/inotify", "pause");
    let last = events.find(|told| told.event == "paused").id;
    drop(events);
    site.actor_command("queue/inotify", "resume");
    site.actor_command("queue/fetcher_watcher", "restart");
    let header = format!("Last-Event-ID: {last}");
    let mut events = EventReader::tcp(site.admin_tcp(), "", &[&header]).expect("a stream");
    let mut expected = last + 1;
    let mut resumed = false;
    loop {
        let told = events.next_event().expect("the stream goes on");
        assert_eq!(told.id, expected, "{told:?}");
        expected += 1;
        resumed |= told.event == "resumed";
        if told.event == "commanded" && told.data["verb"] == "restart" {
            break;
        }
    }
    assert!(resumed);
    let filter = format!("?after={last}&path=queue/fetcher_watcher&kind=commanded");
    let mut events = EventReader::unix(&site.admin_socket(), &filter, &[]).expect("a stream");
    assert_eq!(events.next_event().expect("an event").data["verb"], "restart");
}

#[test]
fn a_crowd_of_readers_is_bounded_and_nobody_else_notices() {
    let site = site().set(&format!("admin.max_event_clients={SEATS}"));
    let instance = site.start();
    let address = site.admin_tcp();
    drop(EventReader::tcp(address, "", &[]).expect("a stream"));
    eventually("the seat is free", || site.metric("admin", "event_clients") == 0);
    let memory = instance.memory("VmRSS");

    // In waves of what the descriptors of this process allow; whoever gets a stream keeps it to the end of its wave. How long a
    // worker's answers take meanwhile is a metric of `orchestrator-bench strangers`; here none of them fails.
    let crowd = rounds("ORCHESTRATOR_EVENT_CLIENTS", 10_000) as usize;
    let (mut served, mut refused, mut most) = (0, 0, 0);
    let mut worker = site.worker();
    while served + refused < crowd {
        let (wave, answers) = thread::scope(|scope| {
            let crowd = scope.spawn(|| wave(address, 400, SEATS));
            let mut answers = 0;
            while !crowd.is_finished() {
                assert_eq!(worker.ready(), Reply::NoJobs);
                answers += 1;
            }
            (crowd.join().expect("a wave that ends"), answers)
        });
        assert!(answers > 0, "the worker was served while the crowd came");
        assert_eq!(wave.odd, 0, "answers that are neither a stream nor a refusal");
        assert!(wave.seated.len() <= SEATS, "{} readers at once", wave.seated.len());
        most = most.max(wave.seated.len());
        served += wave.seated.len();
        refused += wave.refused;
        drop(wave.seated);
        eventually("the seats are free", || site.metric("admin", "event_clients") == 0);
    }
    let grown = instance.memory("VmRSS").saturating_sub(memory);
    eprintln!("{served} served, {refused} refused, {most} at once; {} KiB more", grown >> 10);
    assert_eq!(most, SEATS, "each wave was larger than the bound: it must have been reached");
    assert_eq!(site.metric("admin", "refused_crowded") as usize, refused);
    assert!(grown < 16 << 20, "{grown} bytes more");
    assert_eq!(site.node("admin")["restarts"], 0);
    assert!(EventReader::tcp(address, "", &[]).is_ok_and(|reader| reader.status == 200));
    assert!(instance.terminate().success());
}
