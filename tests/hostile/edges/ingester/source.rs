//! A ZMTP source that the ingester connects to.

use std::{sync::Arc, time::Duration};

use orchestrator_harness::{TestEnv, eventually};

use super::fixture::{IngesterFixture, Source, gets_event};
use crate::{
    behaviour::Behaviour,
    edge::{Edge, Plan, Side},
    generator::Protocol,
    protocols::Zmtp,
    switch::Switch,
};

/// Header of an image.
const IMAGE: &[u8] =
    br#"{"htype":"image","frame":0,"shape":[1],"type":"uint8","compression":"none","msg_number":1}"#;

struct Upstream {
    fixture: IngesterFixture,
    source: Source,
    switch: Switch,
    side: Side,
    behaviour: Behaviour,
}

/// The source of an ingester's one stream.
pub(crate) fn zmtp_source(plan: &Plan) -> Box<dyn Edge> {
    let source = Source::start();
    let (switch, side) = Side::servers(source.port);
    Box::new(Upstream {
        fixture: IngesterFixture::new(&["eiger"]),
        source,
        switch,
        side,
        behaviour: plan.behaviour,
    })
}

impl Edge for Upstream {
    fn protocol(&self) -> Arc<dyn Protocol> {
        Arc::new(Zmtp { kind: "PUSH", small: &[IMAGE, b"."] })
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        let redis = format!("127.0.0.1:{}", self.fixture.redis.port());
        self.fixture.section(
            redis,
            &format!("source = \"stins\"\nupstream_url = \"tcp://{}\"", self.switch.address()),
        )
    }

    fn budget(&self) -> u64 {
        // A backlog of 16 MiB (ARCHITECTURE.md), and as much in the socket.
        32 << 20
    }

    fn feed(&mut self, _env: &TestEnv) {
        self.fixture.ensure();
    }

    /// With a full backlog the source is not read, so the end of its connection goes unnoticed.
    ///
    /// The next mapping reconnects.
    fn peer_is_sane(&mut self, _env: &TestEnv) {
        if matches!(self.behaviour, Behaviour::Floods | Behaviour::StreamsWithoutEnd) {
            self.fixture.begin();
        }
    }

    /// Number of handshakes with the correct source.
    fn done(&mut self, _env: &TestEnv) -> u64 {
        self.source.handshakes()
    }

    /// Frames of the next mapping reach a worker.
    fn finish(&mut self, _env: &TestEnv) {
        self.fixture.begin();
        eventually("the next mapping to be taken", || {
            self.fixture.ensure();
            self.fixture.is_taken()
        });
        eventually("an event", || {
            gets_event(self.fixture.port, "w", Duration::from_secs(2), || self.fixture.assign(1, "w"))
        });
    }
}
