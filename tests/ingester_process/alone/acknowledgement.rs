//! A mapping is acknowledged at once, whether its publisher is there or not.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use orchestrator_harness::{IngesterEnv, TestEnv, free_port};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
/// With the original it takes up to 0.04 s. Before, it took 3 s.
const LONGEST: Duration = Duration::from_secs(2);

#[test]
fn a_mapping_does_not_wait_for_a_publisher_that_is_away_or_silent() {
    // The kernel accepts connections to this one, and nobody answers them.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    for port in [free_port(), silent.local_addr().expect("its address").port()] {
        let upstream = format!("tcp://127.0.0.1:{port}");
        let env = IngesterEnv::with_source(TestEnv::new(BINARY), "xspress", &upstream, "");
        let _instance = env.start();
        let controller = env.controller();
        for mapping in 1..=2 {
            let begun = Instant::now();
            controller.start_mapping(&format!("6277a4d0-975c-4dfe-97be-7f6d1d5a5c3{mapping}"), &["eiger"]);
            let took = begun.elapsed();
            assert!(took < LONGEST, "mapping {mapping} with {upstream} took {took:?}");
        }
    }
}
