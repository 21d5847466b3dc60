//! The page's section "Moving from .." with its commands: dranspose's own ingester, ours, and dranspose's
//! again.

use orchestrator_harness::{
    Redis, UnitFile,
    dranspose::{Deployment, IngesterSpec, Map, Source, check_scan, series},
    free_port,
};

use super::BINARY;

const PAGE: &str = include_str!("../../../actors/ingester/README.md");

#[test]
fn a_site_moves_and_goes_back() {
    let mut deployment = Deployment::start_with(Redis::start(), BINARY);
    let mut source = Source::push();
    let spec = IngesterSpec::stins(&source.url(), "eiger");
    let [before, after] = UnitFile::before_and_after(
        PAGE,
        &[
            ("tcp://node7:10010", &format!("tcp://127.0.0.1:{}", free_port())),
            ("redis://control:6379/0", &deployment.redis.url()),
            ("tcp://detector:9999", &source.url()),
        ],
    );
    for (round, unit) in [&before, &after, &before].into_iter().enumerate() {
        let ingester = deployment.start_unit(&spec, unit);
        deployment.start_workers(&["w1", "w2"]);
        let scan = deployment.post_mapping(&Map::of_stream("eiger", 20));
        let sent = source.send(&series(&format!("round-{round}"), 20, 1000));
        deployment.wait_for_end(&scan);
        check_scan(&deployment, &scan, &[("eiger", "STINS", &sent)], true);
        assert!(ingester.terminate(), "a clean exit");
    }
}
