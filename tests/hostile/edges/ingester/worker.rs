//! The ingester's port for workers.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use orchestrator_harness::TestEnv;

use super::fixture::{IngesterFixture, Messages, Source, gets_event};
use crate::{
    client::Endpoint,
    edge::{Edge, Plan, Side},
    generator::Protocol,
    protocols::Zmtp,
};

/// Timeout of one worker for its event.
const WAIT: Duration = Duration::from_millis(500);

struct Workers {
    fixture: IngesterFixture,
    source: Source,
    side: Side,
    served: u64,
    number: u64,
}

/// An ingester's port for workers.
pub(crate) fn zmtp_worker(_plan: &Plan) -> Box<dyn Edge> {
    let fixture = IngesterFixture::new(&["eiger"]);
    let address = SocketAddr::from(([127, 0, 0, 1], fixture.port));
    let side = Side::Clients(Box::new(move |_| Endpoint::Tcp(address)));
    Box::new(Workers { fixture, source: Source::start(Messages::Stins), side, served: 0, number: 0 })
}

impl Edge for Workers {
    fn protocol(&self) -> Arc<dyn Protocol> {
        Arc::new(Zmtp { kind: "DEALER", small: &[b""], wrong: &[] })
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        let redis = format!("127.0.0.1:{}", self.fixture.redis.port());
        let stream = format!("source = \"stins\"\nupstream_url = \"tcp://127.0.0.1:{}\"", self.source.port);
        self.fixture.section(redis, &stream)
    }

    fn budget(&self) -> u64 {
        // Frames that nobody is assigned to, up to the backlog of 16 MiB (ARCHITECTURE.md).
        16 << 20
    }

    fn feed(&mut self, _env: &TestEnv) {
        self.fixture.ensure();
    }

    /// Number of new workers that received their event.
    fn done(&mut self, _env: &TestEnv) -> u64 {
        if self.fixture.is_taken() {
            self.number += 1;
            let worker = format!("w{}", self.number);
            self.served +=
                u64::from(gets_event(self.fixture.port, &worker, WAIT, || self.fixture.assign(1, &worker)));
        }
        self.served
    }
}
