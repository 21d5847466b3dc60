//! The real dranspose 0.2.0 with our ingester in the place of its own: its controller, its workers and its reducer on a real Redis,
//! with sources that use the real libzmq. Every event of every scan is compared: with the map that was posted, with the
//! controller's assignments, and with the bytes that were sent.
//!
//! With `ORCHESTRATOR_INTEROP_INGESTER=python` the same tests run with dranspose's own ingester, to see that they check_scan
//! rightly. There some fail, for faults of that ingester that ours must not have; each such test says so.

mod backlog;
mod control;
mod dump;
mod pandabox;
mod protocols;
mod restarts;
mod series;

use orchestrator_harness::{
    Redis,
    dranspose::{Deployment, Ingester, IngesterSpec, Map, Scan, Source, check_scan, series as stins},
};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

/// A deployment with one source, `eiger`, an ingester for it, and two workers.
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
        // The ingester first: workers look for new ones every two seconds only.
        let ingester = deployment.start_ingester(&spec);
        deployment.start_workers(&["w1", "w2"]);
        Self { deployment, source, spec, ingester, series: 0 }
    }

    /// A whole scan of `frames` images of `len` bytes, and its judgement.
    fn scan(&mut self, frames: usize, len: usize) -> Scan {
        self.series += 1;
        let scan = self.deployment.post_mapping(&Map::of_stream("eiger", frames));
        let sent = self.source.send(&stins(&format!("series-{}", self.series), frames, len));
        self.finish(&scan, &sent);
        scan
    }

    /// Waits for the end of a scan for which all is sent, and judges it.
    fn finish(&self, scan: &Scan, sent: &[Value]) {
        self.deployment.wait_for_end(scan);
        check_scan(&self.deployment, scan, &[("eiger", "STINS", sent)], true);
    }
}
