//! A ZMTP source that the ingester dials.

use std::{sync::Arc, time::Duration};

use orchestrator_harness::{TestEnv, eventually};

use super::lab::{Lab, Source, gets_event};
use crate::{
    behaviour::Behaviour,
    edge::{Edge, Plan, Side},
    generator::Protocol,
    protocols::Zmtp,
    switch::Switch,
};

/// Head of an image.
const IMAGE: &[u8] =
    br#"{"htype":"image","frame":0,"shape":[1],"type":"uint8","compression":"none","msg_number":1}"#;

struct Upstream {
    lab: Lab,
    source: Source,
    switch: Switch,
    side: Side,
    behaviour: Behaviour,
}

/// The source of an ingester's one stream.
pub(crate) fn zmtp_source(plan: &Plan) -> Box<dyn Edge> {
    let source = Source::start();
    let (switch, side) = Side::servers(source.port);
    Box::new(Upstream { lab: Lab::new(&["eiger"]), source, switch, side, behaviour: plan.behaviour })
}

impl Edge for Upstream {
    fn protocol(&self) -> Arc<dyn Protocol> {
        Arc::new(Zmtp { kind: "PUSH", small: &[IMAGE, b"."] })
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        let redis = format!("127.0.0.1:{}", self.lab.redis.port());
        self.lab.section(
            redis,
            &format!("source = \"stins\"\nupstream_url = \"tcp://{}\"", self.switch.address()),
        )
    }

    fn budget(&self) -> u64 {
        // A backlog of 16 MiB (ARCHITECTURE.md), and as much again in front of it.
        32 << 20
    }

    fn feed(&mut self, _env: &TestEnv) {
        self.lab.ensure();
    }

    /// A source whose frames nobody asked for is not read any more once the backlog is full, and so its end is not seen: the next
    /// mapping begins anew.
    fn peer_is_sane(&mut self, _env: &TestEnv) {
        if matches!(self.behaviour, Behaviour::Floods | Behaviour::StreamsWithoutEnd) {
            self.lab.begin();
        }
    }

    /// Handshakes of the sane source.
    fn done(&mut self, _env: &TestEnv) -> u64 {
        self.source.handshakes()
    }

    /// Frames of the next mapping reach a worker.
    fn finish(&mut self, _env: &TestEnv) {
        self.lab.begin();
        eventually("the next mapping to be taken", || {
            self.lab.ensure();
            self.lab.is_taken()
        });
        eventually("an event", || {
            gets_event(self.lab.port, "w", Duration::from_secs(2), || self.lab.assign(1, "w"))
        });
    }
}
