//! Scans that go as they should, and what sources send besides.

use orchestrator_harness::dranspose::{Facility, Map, Source, Spec, garbage, header, image, judge, series, series_end};

use crate::BINARY;

/// A facility with an ingester for a source of `eiger`, and two workers.
pub(crate) fn usual() -> (Facility, Source, Spec, orchestrator_harness::dranspose::Ingester) {
    let source = Source::push();
    let mut facility = Facility::start(BINARY);
    let spec = Spec::stins(&source.url(), "eiger");
    let ingester = facility.ingester(&spec);
    facility.workers(&["w1", "w2"]);
    (facility, source, spec, ingester)
}

#[test]
fn one_series_and_three_more() {
    let (facility, mut source, _, ingester) = usual();
    for (round, (frames, size)) in [(20, 1000), (1, 3), (40, 0), (7, 1_500_000)].into_iter().enumerate() {
        let scan = facility.post(&Map::each("eiger", frames));
        let sent = source.send(&series(&format!("series-{round}"), frames, size));
        facility.finished(&scan);
        judge(&facility, &scan, &[("eiger", "STINS", &sent)], true);
    }
    assert!(ingester.terminate(), "an orderly end");
}
