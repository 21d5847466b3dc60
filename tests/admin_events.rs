//! The stream of events of the real binary: a crowd of readers, one that comes back, one that is there at the end.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use orchestrator_harness::{EventReader, Reply, Site, eventually, rounds};

const SEATS: usize = 16;

fn site() -> Site {
    Site::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=127.0.0.1:0")
}

#[test]
fn who_comes_back_misses_nothing() {
    let site = site();
    let _instance = site.start();
    let mut events = EventReader::unix(&site.admin_socket(), "", &[]).expect("a stream");
    site.steer("queue/inotify", "pause");
    let last = events.find(|told| told.event == "paused").id;
    drop(events);
    site.steer("queue/inotify", "resume");
    site.steer("queue/watcher", "restart");
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
    let filter = format!("?after={last}&path=queue/watcher&kind=commanded");
    let mut events = EventReader::unix(&site.admin_socket(), &filter, &[]).expect("a stream");
    assert_eq!(events.next_event().expect("an event").data["verb"], "restart");
}

#[test]
fn a_crowd_of_readers_is_bounded_and_nobody_else_notices() {
    let site = site().set(&format!("admin.max_event_clients={SEATS}"));
    let instance = site.start();
    let address = site.admin_tcp();
    drop(EventReader::tcp(address, "", &[]).expect("a stream"));
    eventually("the seat is free", || site.figure("admin", "event_clients") == 0);
    let memory = instance.memory("VmRSS");

    let over = Arc::new(AtomicBool::new(false));
    let mut worker = site.worker();
    let mut ask = move || {
        let began = Instant::now();
        assert_eq!(worker.ready(), Reply::NoJobs);
        let took = began.elapsed();
        // The pace of a worker.
        thread::sleep(Duration::from_millis(2));
        took
    };
    let calm = p99((0..1000).map(|_| ask()).collect());
    let ended = over.clone();
    let work = thread::spawn(move || {
        let mut answers = Vec::new();
        while !ended.load(SeqCst) || answers.len() < 100 {
            answers.push(ask());
        }
        p99(answers)
    });

    // In waves of what the descriptors of this process allow; whoever gets a stream keeps it to the end of its wave.
    let crowd = rounds("ORCHESTRATOR_EVENT_CLIENTS", 10_000) as usize;
    let (mut served, mut refused, mut most) = (0, 0, 0);
    while served + refused < crowd {
        let wave = wave(address, 400);
        assert_eq!(wave.odd, 0, "answers that are neither a stream nor a refusal");
        assert!(wave.seated.len() <= SEATS, "{} readers at once", wave.seated.len());
        most = most.max(wave.seated.len());
        served += wave.seated.len();
        refused += wave.refused;
        drop(wave.seated);
        eventually("the seats are free", || site.figure("admin", "event_clients") == 0);
    }
    over.store(true, SeqCst);
    let crowded = work.join().expect("a worker that lives on");
    let grown = instance.memory("VmRSS").saturating_sub(memory);
    eprintln!(
        "{served} served, {refused} refused, {most} at once; {} KiB more; READY p99 {calm:?}, then {crowded:?}",
        grown >> 10
    );
    assert_eq!(most, SEATS, "each wave was larger than the bound: it must have been reached");
    assert_eq!(site.figure("admin", "refused_crowded") as usize, refused);
    assert!(grown < 16 << 20, "{grown} bytes more");
    // Below a millisecond the machine's noise is all that is measured.
    assert!(crowded < 2 * calm.max(Duration::from_millis(1)), "workers: {calm:?} became {crowded:?}");
    assert_eq!(site.node("admin")["restarts"], 0);
    assert!(EventReader::tcp(address, "", &[]).is_ok_and(|reader| reader.status == 200));
    assert!(instance.terminate().success());
}

/// The 99th of a hundred in a typical span of 500 answers: a moment's noise of the machine is in one span, what a crowd does
/// is in all of them.
fn p99(took: Vec<Duration>) -> Duration {
    let mut spans: Vec<Duration> = took
        .chunks(500)
        .map(|span| {
            let mut span = span.to_vec();
            span.sort();
            span[span.len() * 99 / 100]
        })
        .collect();
    spans.sort();
    spans[spans.len() / 2]
}

struct Wave {
    seated: Vec<EventReader<std::net::TcpStream>>,
    refused: usize,
    odd: usize,
}

/// `count` readers, nearly as many at once as have a connection: an answer that says no is a slow one.
fn wave(address: SocketAddr, count: usize) -> Wave {
    let left = AtomicUsize::new(count);
    let take = || left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
    let one = || {
        let mut wave = Wave { seated: Vec::new(), refused: 0, odd: 0 };
        // Too many are too many: more of them would only wait.
        while wave.seated.len() <= SEATS && take() {
            match EventReader::tcp(address, "", &[]) {
                Ok(reader) if reader.status == 200 => wave.seated.push(reader),
                Ok(reader)
                    if reader.status == 503 && reader.head.to_lowercase().contains("retry-after: ") =>
                {
                    wave.refused += 1;
                }
                _ => wave.odd += 1,
            }
        }
        wave
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..160).map(|_| scope.spawn(one)).collect();
        let mut all = Wave { seated: Vec::new(), refused: 0, odd: 0 };
        for thread in threads {
            let wave = thread.join().expect("a wave that ends");
            all.seated.extend(wave.seated);
            all.refused += wave.refused;
            all.odd += wave.odd;
        }
        all
    })
}

#[test]
fn readers_do_not_hold_up_the_end_of_the_process() {
    let site = site();
    let instance = site.start();
    let mut readers: Vec<_> =
        (0..16).map(|_| EventReader::tcp(site.admin_tcp(), "", &[]).expect("a stream")).collect();
    let began = Instant::now();
    assert!(instance.terminate().success(), "{}", site.log());
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(!site.log().contains("did not stop in time"), "{}", site.log());
    for reader in &mut readers {
        while reader.next_event().is_some() {}
    }
}
