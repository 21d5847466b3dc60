//! Several ingesters behind one PUSH socket, each with a share of the messages.
//!
//! The classes are newer than dranspose 0.2.0, whose workers read each stream from one ingester. The workers
//! here differ from them in that (`numbered.py`).

use orchestrator_harness::dranspose::{
    Deployment, Ingester, IngesterSpec, Map, Source, SourceMessage, check_scan, item, series,
};
use serde_json::{Value, json};

use super::BINARY;

/// Ingesters of the stream `eiger`, and two workers.
struct Shared<const N: usize> {
    source: Source,
    deployment: Deployment,
    specs: [IngesterSpec; N],
    ingesters: [Ingester; N],
}

impl<const N: usize> Shared<N> {
    fn start(class: &str, names: [&str; N]) -> Self {
        let source = Source::push();
        let mut deployment = Deployment::start(BINARY).with_numbered_workers();
        let specs = names.map(|name| IngesterSpec::class(class, &source.url(), "eiger").name(name));
        let ingesters = specs.each_ref().map(|spec| deployment.start_ingester(spec));
        deployment.start_workers(&["w1", "w2"]);
        Self { source, deployment, specs, ingesters }
    }

    /// Runs and checks a scan of `messages`, and returns the number of events of each ingester.
    fn scan(&mut self, typ: &str, messages: &[SourceMessage]) -> [u64; N] {
        let events = self.deployment.post_mapping(&Map::of_stream("eiger", messages.len() - 2));
        // Without this the first one might get all of a short series.
        self.source.await_connections(N);
        let sent = self.source.send(messages);
        self.deployment.wait_for_end(&events);
        check_scan(&self.deployment, &events, &[("eiger", typ, &sent)], true);
        self.specs.each_ref().map(|spec| {
            let state = self.deployment.ingester_state(spec).expect("its state");
            state["processed_events"].as_u64().expect("a number")
        })
    }
}

/// Numbers of events that `ingesters` sent in one scan.
fn shares<const N: usize>(before: [u64; N], now: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| now[at] - before[at])
}

#[test]
fn ingesters_share_a_stream() {
    let mut shared = Shared::start("StinsParallelIngester", ["eiger-1", "eiger-2", "eiger-3"]);
    let mut before = [0; 3];
    for (frames, len) in [(298, 1_000), (7, 1_500_000), (100, 0)] {
        let now = shared.scan("STINS", &series("shared", frames, len));
        let shares = shares(before, now);
        assert_eq!(shares.iter().sum::<u64>(), frames as u64 + 2, "each event is sent once: {shares:?}");
        assert!(shares.iter().all(|share| *share > 0), "each ingester has a share: {shares:?}");
        before = now;
    }
    for ingester in shared.ingesters {
        assert!(ingester.terminate(), "an orderly end");
    }
}

/// The end of this stream is no event: the last image has the last event of the mapping.
#[test]
fn ingesters_share_an_eigers_legacy_stream() {
    let mut shared = Shared::start("Stream1ParallelIngester", ["eiger-1", "eiger-2"]);
    let image = |frame: u64| {
        let value = json!({"htype": "dimage-1.0", "series": 1, "frame": frame, "hash": ""});
        item(&value).noise(5_000, frame).text("{}")
    };
    let header: Value = json!({"htype": "dheader-1.0", "series": 1, "header_detail": "none"});
    let messages: Vec<_> = [item(&header)].into_iter().chain((0..59).map(image)).collect();
    let shares = shared.scan("EIGER_LEGACY", &messages);
    assert_eq!(shares.iter().sum::<u64>(), 60, "{shares:?}");
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
}
