//! Redis. Completed work: mappings that the ingester accepted.

use std::sync::Arc;

use orchestrator_harness::{TestEnv, free_port};

use super::fixture::IngesterFixture;
use crate::{
    edge::{Edge, Plan, Side},
    generator::Protocol,
    protocols,
    switch::Switch,
};

struct Control {
    fixture: IngesterFixture,
    switch: Switch,
    side: Side,
}

/// An ingester's Redis.
pub(crate) fn redis(_plan: &Plan) -> Box<dyn Edge> {
    let fixture = IngesterFixture::new(&[]);
    let (switch, side) = Side::servers(fixture.redis.port());
    Box::new(Control { fixture, switch, side })
}

impl Edge for Control {
    fn protocol(&self) -> Arc<dyn Protocol> {
        Arc::new(protocols::Redis)
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        // No mapping uses the source, which has no listener.
        let stream = format!("source = \"stins\"\nupstream_url = \"tcp://127.0.0.1:{}\"", free_port());
        self.fixture.section(self.switch.address(), &stream)
    }

    fn budget(&self) -> u64 {
        // A reply of 16 MiB, held twice while it is parsed (actors/ingester/README.md).
        32 << 20
    }

    fn feed(&mut self, _env: &TestEnv) {
        self.fixture.ensure();
    }

    /// Publishes a new mapping after the attack.
    fn peer_is_sane(&mut self, _env: &TestEnv) {
        self.fixture.begin();
    }

    fn done(&mut self, _env: &TestEnv) -> u64 {
        self.fixture.taken()
    }
}
