//! Profiling only; not kept.
use orchestrator_queue::edge::sqlite::*;
use orchestrator_queue::storage::*;
use std::time::{Duration, Instant};
const R: std::sync::atomic::Ordering = std::sync::atomic::Ordering::Relaxed;
fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let rows: usize = args[1].parse().unwrap();
    let group: usize = args.get(2).map_or(64, |s| s.parse().unwrap());
    let slice_ms: u64 = args.get(3).map_or(8, |s| s.parse().unwrap());
    let chunk: usize = args.get(4).map_or(65536, |s| s.parse().unwrap());
    let shuffle = args.get(5).is_some();
    let dir = std::path::PathBuf::from("/tmp/storage-bench");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("q.db");
    let mut s = SqliteStore::open(&path, Options::default()).unwrap();
    let ck = Checkpointer::open(&path).unwrap();
    let pages = s.wal_pages();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let st = stop.clone();
    let limit: u64 = std::env::var("LIMIT").map_or(4000, |s| s.parse().unwrap());
    let rest = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let r2 = rest.clone();
    let rest_max: u64 = std::env::var("REST").map_or(1000, |s| s.parse().unwrap());
    let th = std::thread::spawn(move || {
        let mut n = 0;
        while !st.load(R) {
            if pages.load(R) > limit && !r2.load(R) {
                for _ in 0..4 {
                    let c = ck.checkpoint(CheckpointMode::Passive).unwrap();
                    n += 1;
                    if c.log_pages - c.checkpointed_pages <= rest_max {
                        break;
                    }
                }
                r2.store(true, R);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        n
    });
    let mut rests = vec![];
    let mut after = move |s: &mut SqliteStore, print: bool| {
        if print {
            let mut v: Vec<f64> = std::mem::take(&mut rests);
            v.sort_by(f64::total_cmp);
            println!(
                "  rests {} p50 {:.1} max {:.1} sum {:.0} ms",
                v.len(),
                v.get(v.len() / 2).unwrap_or(&0.),
                v.last().unwrap_or(&0.),
                v.iter().sum::<f64>()
            );
            return;
        }
        if rest.load(R) {
            let q = Instant::now();
            s.checkpoint_rest().unwrap();
            rests.push(ms(q.elapsed()));
            rest.store(false, R);
        }
    };
    let mut names: Vec<usize> = (0..rows).collect();
    if shuffle {
        fastrand::Rng::with_seed(1).shuffle(&mut names);
    }
    let run = RunId::new("f1", 100);
    s.begin().unwrap();
    let _ = s.upsert_run(&run, false).unwrap();
    s.commit().unwrap();
    let t = Instant::now();
    let mut prep = Duration::ZERO;
    let mut worst = Duration::ZERO;
    let mut commits = 0;
    let mut ct = Duration::ZERO;
    for c in names.chunks(chunk) {
        let p = Instant::now();
        let b = Batch::new(c.iter().map(|i| {
            (format!("python3Packages.package-{i:07}"), format!("1.0.{i} 1.1.{i} https://example.org/{i}"))
        }));
        prep += p.elapsed();
        let mut at = 0;
        while at < b.len() {
            let q = Instant::now();
            s.begin().unwrap();
            at = s.enqueue(&run, &b, at, Some(q + Duration::from_millis(slice_ms))).unwrap();
            let q2 = Instant::now();
            s.commit().unwrap();
            commits += 1;
            ct += q2.elapsed();
            after(&mut s, false);
            worst = worst.max(q.elapsed());
        }
    }
    let e = t.elapsed();
    println!(
        "ingest {rows}: {:.0} rows/s (prep {:.0} ms) worst slice {:.1} ms, {commits} commits, commit time {:.0} ms, total {:.0}",
        rows as f64 / (e - prep).as_secs_f64(),
        ms(prep),
        ms(worst),
        ms(ct),
        ms(e)
    );
    after(&mut s, true);
    let n = 200_000.min(rows * 3);
    let mut lat = vec![];
    let mut pending: Vec<Job> = vec![];
    let mut now = 1000;
    let mut done = 0;
    let t = Instant::now();
    let mut ct = Duration::ZERO;
    let mut run2 = 0;
    while done < n {
        let q = Instant::now();
        s.begin().unwrap();
        now += 1;
        let prev = std::mem::take(&mut pending);
        let mut got = 0;
        for i in 0..group {
            if let Some(j) = prev.get(i) {
                s.delivered(j.handout).unwrap();
                s.finish(&j.attr_path, 0, now).unwrap();
            }
            if let Some(j) = s.dequeue(now).unwrap() {
                pending.push(j);
                got += 1;
            }
        }
        let q2 = Instant::now();
        s.commit().unwrap();
        ct += q2.elapsed();
        after(&mut s, false);
        lat.push(q.elapsed());
        done += group;
        if got == 0 {
            if run2 == 0 {
                println!("drained at {done}");
            }
            run2 += 1;
            if run2 > 1000 {
                break;
            }
        }
    }
    if std::env::var("NODEL").is_ok() {}
    let e = t.elapsed();
    lat.sort();
    println!(
        "ops {done}: {:.0} ops/s, group p50 {:.2} ms p99 {:.2} max {:.2}, commit share {:.0} of {:.0} ms",
        done as f64 / e.as_secs_f64(),
        ms(lat[lat.len() / 2]),
        ms(lat[lat.len() * 99 / 100]),
        ms(*lat.last().unwrap()),
        ms(ct),
        ms(e)
    );
    after(&mut s, true);
    s.begin().unwrap();
    let t = Instant::now();
    s.mark_deleted(&run).unwrap();
    s.commit().unwrap();
    println!("mark {:.2} ms", ms(t.elapsed()));
    let t = Instant::now();
    let mut worst = Duration::ZERO;
    let mut k = 0;
    loop {
        let q = Instant::now();
        s.begin().unwrap();
        let d = s.delete_slice(Duration::from_millis(slice_ms)).unwrap();
        s.commit().unwrap();
        after(&mut s, false);
        worst = worst.max(q.elapsed());
        k += 1;
        if matches!(d, Deletion::Finished(_)) {
            break;
        }
    }
    println!(
        "delete: {:.0} rows/s, {k} slices, worst {:.1} ms",
        rows as f64 / t.elapsed().as_secs_f64(),
        ms(worst)
    );
    after(&mut s, true);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    println!("checkpoints {}", th.join().unwrap());
    println!(
        "{}",
        std::fs::read_to_string("/proc/self/status")
            .unwrap()
            .lines()
            .filter(|l| l.starts_with("VmHWM") || l.starts_with("VmRSS"))
            .collect::<Vec<_>>()
            .join(" ")
    );
    for f in std::fs::read_dir(&dir).unwrap() {
        let f = f.unwrap();
        println!("{:?} {} MB", f.file_name(), f.metadata().unwrap().len() >> 20);
    }
}
