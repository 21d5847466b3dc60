//! The real dranspose 0.2.0 (controller, workers, reducer) on a real Redis with the orchestrator's ingester.
//! Sources use the real libzmq. Every event of every scan is compared with the posted mapping, the
//! controller's assignments, and the bytes that were sent.
//!
//! With `ORCHESTRATOR_INTEROP_INGESTER=python` the tests run with dranspose's own ingester, to validate the
//! tests. Some fail there because of faults of that ingester; each such test names the fault.

mod backlog;
mod command_line;
mod control;
mod custom;
mod dump;
mod idle;
mod moving;
mod pandabox;
mod parallel;
mod protocols;
mod restarts;
mod series;
mod units;

use orchestrator_harness::{
    Redis,
    dranspose::{Deployment, Ingester, IngesterSpec, Map, Scan, Source, check_scan, series as stins},
};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

/// Deployment with one source `eiger`, its ingester, and two workers.
struct Fixture {
    deployment: Deployment,
    source: Source,
    spec: IngesterSpec,
    ingester: Ingester,
    series: usize,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Redis::start())
    }

    fn with(redis: Redis) -> Self {
        let source = Source::push();
        let mut deployment = Deployment::start_with(redis, BINARY);
        let spec = IngesterSpec::stins(&source.url(), "eiger");
        // Workers look for new ingesters only every 2 s, so the ingester starts first.
        let ingester = deployment.start_ingester(&spec);
        deployment.start_workers(&["w1", "w2"]);
        Self { deployment, source, spec, ingester, series: 0 }
    }

    /// Runs and checks a scan of `frames` images of `len` bytes.
    fn scan(&mut self, frames: usize, len: usize) -> Scan {
        self.series += 1;
        let scan = self.deployment.post_mapping(&Map::of_stream("eiger", frames));
        let sent = self.source.send(&stins(&format!("series-{}", self.series), frames, len));
        self.finish(&scan, &sent);
        scan
    }

    /// Waits for the end of a completely sent scan and checks it.
    fn finish(&self, scan: &Scan, sent: &[Value]) {
        self.deployment.wait_for_end(scan);
        check_scan(&self.deployment, scan, &[("eiger", "STINS", sent)], true);
    }
}
