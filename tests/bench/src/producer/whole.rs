//! The whole producer: the real binary between the stand-in for MongoDB and the sink, a million pairs of a
//! thousand pages of each set.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use orchestrator_harness::{MongoDb, ProducerEnv, Tanglenomicon, wait_for};
use serde_json::{Value, json};

use super::{Options, Running};
use crate::calibration::median;

/// Runs `rounds` of them; each has to end by itself, with code 0.
pub(super) fn run(binary: &Path, options: &Options) -> Result<Value> {
    let pages = u64::from(options.jobs).isqrt();
    ensure!(pages > 0, "give --jobs");
    let all = Tanglenomicon {
        completed_and_max: (4, 5),
        stencils: vec![(5, 2, 3)],
        tangles: vec![(2, pages), (3, pages)],
    };
    let (mut rates, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let database = MongoDb::start();
        all.fill(&database);
        let peer = Running::start(options.to)?;
        let url = format!("tcp://127.0.0.1:{}", peer.port());
        let env = ProducerEnv::with_faktory_url(std::path::absolute(binary)?, &database, &url)
            .set("producer.page_size=1")
            .set("producer.high_water=0")
            .set(&format!("producer.chunk={}", options.chunk))
            .set(&format!("producer.connections={}", options.connections))
            .set("producer.until_done=true");
        let mut instance = env.start();
        // The pages of the first set are walked before the first job.
        let before = wait_for("the first chunk", || env.status()["pushed"].as_u64().filter(|it| *it > 0));
        let begun = Instant::now();
        let mut most = 0.0;
        let end = loop {
            match instance.ended() {
                Some(end) => break end,
                None => most = peak_mib(instance.pid()).unwrap_or(most),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        ensure!(end.success(), "it failed: {}", env.base().log());
        rates.push((pages * pages - before) as f64 / begun.elapsed().as_secs_f64());
        peaks.push(most);
    }
    Ok(json!({
        "bench": "producer-whole", "to": format!("{:?}", options.to), "jobs": pages * pages, "chunk": options.chunk,
        "connections": options.connections,
        "jobs_per_s": median(rates).round(),
        "peak_mib": median(peaks).round(),
    }))
}

/// None: it has just ended.
fn peak_mib(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}
