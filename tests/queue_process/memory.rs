//! Memory is bounded (CONTRACT QR16) for very long lines, very many files and clients that never
//! read.

use std::{
    fs::{self, File},
    io::{ErrorKind, Seek, SeekFrom, Write},
    os::unix::net::UnixStream,
};

use orchestrator_harness::{Reply, TestEnv, eventually};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::site;

const MIB: u64 = 1 << 20;
const LONG: usize = 64 << 20;

/// CONTRACT QR16: a line of 64 MiB is read, stored and handed out with less than three times its
/// size in memory, and the memory is freed.
#[test]
fn r16_a_line_of_64_mib_takes_less_than_three_times_its_size() {
    let site = site();
    site.write("f.1.txt", "short 1\n");
    let instance = site.start();
    let mut worker = site.worker();
    assert_eq!(worker.ready().attr_path(), "short");
    let before = instance.memory("VmHWM");
    // The text does not repeat, so that a loss or a swap of parts shows.
    let payload: String = (0..LONG / 8).map(|i| format!("{i:07x}-")).collect();
    for number in 2..4 {
        site.write(&format!("f.{number}.txt"), format!("long{number} {payload}\nafter{number} 1\n"));
        site.database().expect("SELECT count(*) FROM queue WHERE is_dequeued = 0", &["2"]);
        let mut seen = Vec::new();
        for _ in 0..2 {
            match worker.ready() {
                Reply::Job { attr_path, payload: got } if attr_path == format!("long{number}") => {
                    assert!(got == payload, "it arrives whole: {} bytes", got.len());
                    seen.push(attr_path);
                }
                other => seen.push(other.attr_path().to_owned()),
            }
        }
        seen.sort();
        assert_eq!(seen, [format!("after{number}"), format!("long{number}")]);
    }
    let peak = instance.memory("VmHWM") - before;
    assert!(peak < 3 * LONG as u64, "{} MiB for a line of {} MiB", peak / MIB, LONG as u64 / MIB);
    assert!(instance.terminate().success());
}

/// CONTRACT QR16: a long line in small pieces costs no more than in one.
#[test]
fn r16_a_long_line_in_pieces_costs_no_more() {
    let site = site();
    let instance = site.start();
    site.worker().ready();
    let before = instance.memory("VmHWM");
    let piece = "0123456789abcde ".repeat(1 << 16);
    site.append("f.1.txt.part", "long ");
    for _ in 0..LONG / piece.len() {
        site.append("f.1.txt.part", &piece);
    }
    site.append("f.1.txt.part", "\n");
    site.database().expect("SELECT length(payload) FROM queue", &[&(LONG - 1).to_string()]);
    let peak = instance.memory("VmHWM") - before;
    assert!(peak < 3 * LONG as u64, "{} MiB", peak / MIB);
    // After a restart it is read again, updates the existing row, and is served whole.
    assert!(instance.terminate().success());
    let instance = site.start();
    let before = instance.memory("VmHWM");
    eventually("the line to be read again", || site.metric("queue/queue_store", "ingested") == 1);
    match site.worker().ready() {
        Reply::Job { payload, .. } => assert!(payload == piece.repeat(LONG / piece.len()).trim_end()),
        other => panic!("{other:?}"),
    }
    let peak = instance.memory("VmHWM") - before;
    assert!(peak < 3 * LONG as u64, "{} MiB", peak / MIB);
}

/// Writes a file with a line of `before`, `hole` zero bytes that use no disk, and `after`.
fn write_sparse_line(site: &TestEnv, name: &str, before: &str, hole: u64, after: &str) {
    let hidden = site.file("not-yet");
    let mut file = File::create(&hidden).expect("create a file");
    file.write_all(before.as_bytes()).expect("write");
    file.seek(SeekFrom::Current(i64::try_from(hole).expect("a length"))).expect("seek");
    file.write_all(after.as_bytes()).expect("write");
    fs::rename(&hidden, site.file(name)).expect("move it into place");
}

/// CONTRACT QR16, QP13: whichever field is long, little of a line is kept, one warning is logged,
/// and the next line counts.
#[test]
fn r16_a_line_of_160_mib_is_skipped_in_slices() {
    const HOLE: u64 = 160 << 20;
    let site = site();
    site.write("f.1.txt", "first 1\n");
    let instance = site.start();
    let mut worker = site.worker();
    assert_eq!(worker.ready().attr_path(), "first");
    let before = instance.memory("VmHWM");
    let cases = [
        ("path.2.txt", "", " 1\n", format!("its attribute path has {HOLE} bytes")),
        ("payload.3.txt", "long ", "\n", format!("it has {} bytes", HOLE + 5)),
    ];
    for (name, start, end, message) in &cases {
        write_sparse_line(&site, name, &format!("a{name} 1\n{start}"), HOLE, &format!("{end}z{name} 1\n"));
        let mut seen = Vec::new();
        while seen.len() < 2 {
            // Workers are answered while the file is read.
            match worker.ready() {
                Reply::Job { attr_path, .. } => seen.push(attr_path),
                Reply::NoJobs => {}
                Reply::Closed => panic!("closed"),
            }
        }
        assert_eq!(seen, [format!("a{name}"), format!("z{name}")]);
        let log = site.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(name)).collect();
        assert!(lines.len() == 1 && lines[0].contains(message) && lines[0].contains("line=2"), "{lines:#?}");
    }
    let peak = instance.memory("VmHWM") - before;
    assert!(peak < 32 * MIB, "{} MiB", peak / MIB);
    assert!(instance.terminate().success());
}

/// Unterminated lines in many files cost little each, however long they are.
#[test]
fn r16_unterminated_lines_of_many_files_cost_little() {
    const FILES: u64 = 20;
    let site = site();
    let instance = site.start();
    site.worker().ready();
    let before = instance.memory("VmHWM");
    let piece = "0123456789abcde ".repeat(1 << 16);
    for number in 1..=FILES {
        site.write(
            &format!("f.{number}.txt.part"),
            format!("short{number} 1\nlong{number} {}", piece.repeat(8)),
        );
    }
    let rows = (2 * FILES).to_string();
    site.database().expect("SELECT count(*) FROM queue", &[&FILES.to_string()]);
    eventually("all files to be read", || site.metric("queue/reader", "read_bytes") >= FILES);
    let peak = instance.memory("VmHWM") - before;
    assert!(peak < 48 * MIB, "{} MiB for tails of {} MiB", peak / MIB, FILES * 8);
    for number in 1..=FILES {
        site.append(&format!("f.{number}.txt.part"), "\n");
    }
    site.database().expect("SELECT count(*) FROM queue", &[&rows]);
    let lengths = "SELECT DISTINCT length(payload) FROM queue WHERE attr_path LIKE 'long%'";
    assert_eq!(site.database().rows(lengths), [(8 * piece.len() - 1).to_string()]);
    assert!(instance.terminate().success());
}

/// Each of many growing files costs little, however long it has been open.
#[test]
fn r16_each_growing_file_costs_little() {
    const FILES: u64 = 300;
    let site = site();
    let instance = site.start();
    let database = site.database();
    site.write("f.0.txt.part", "a0 1\n");
    database.expect("SELECT count(*) FROM queue", &["1"]);
    let before = instance.memory("VmRSS");
    for round in 1..=3 {
        for number in 1..=FILES {
            // An unterminated line is kept for each, too.
            site.append(&format!("f.{number}.txt.part"), format!("{round} 1\n{}", "t".repeat(100)));
        }
        database.expect(
            "SELECT count(*) FROM queue WHERE fetcher_run_started > 0",
            &[&(FILES * round).to_string()],
        );
    }
    let growth = instance.memory("VmRSS").saturating_sub(before);
    assert!(growth < FILES * 32 * 1024, "{} KiB a file", growth / FILES / 1024);
    for number in 1..=FILES {
        site.rename(&format!("f.{number}.txt.part"), &format!("f.{number}.txt"));
    }
    database.expect("SELECT count(*) FROM fetcher_runs WHERE is_complete", &[&FILES.to_string()]);
}

/// Requests of clients that never read wait in their own sockets.
#[test]
fn r16_clients_that_never_read_cost_little() {
    const CLIENTS: usize = 64;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .expect("our own limit");
    let site = site();
    site.write("f.1.txt", (0..2_000).map(|i| format!("a{i} 1\n")).collect::<String>());
    let instance = site.start();
    site.database().expect("SELECT count(*) FROM queue", &["2000"]);
    let mut worker = site.worker();
    let mut reply = worker.ready();
    let before = instance.memory("VmRSS");
    let mut floods: Vec<UnixStream> =
        (0..CLIENTS).map(|_| UnixStream::connect(site.socket()).unwrap()).collect();
    let mut sent = 0;
    for _ in 0..40 {
        for flood in &mut floods {
            flood.set_nonblocking(true).unwrap();
            for _ in 0..64 {
                match flood.write(&b"READY\n".repeat(1_000)) {
                    Ok(written) => sent += written,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error)
                        if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) =>
                    {
                        break;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
        // A client that reads is answered, whether or not jobs are left.
        reply = match &reply {
            Reply::Job { attr_path, .. } => worker.done(attr_path, 0),
            _ => worker.ready(),
        };
        assert_ne!(reply, Reply::Closed);
    }
    assert!(sent > CLIENTS * 100_000, "only {sent} bytes were sent");
    let growth = instance.memory("VmRSS").saturating_sub(before);
    assert!(growth < 48 * MIB, "{} MiB for {CLIENTS} floods", growth / MIB);
    drop(floods);
    assert_ne!(site.worker().ready(), Reply::Closed);
    assert!(instance.terminate().success());
}
