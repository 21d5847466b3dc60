//! A ZMTP source that the ingester connects to.

use std::{sync::Arc, time::Duration};

use orchestrator_harness::{TestEnv, eventually};

use super::fixture::{IngesterFixture, Messages, Source, gets_event};
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

/// Message of an image in CBOR.
const EIGER_V2_IMAGE: &[u8] = b"\xa4\x64type\x65image\x69series_id\x01\x68image_id\x00\x64data\xa0";
/// Maps of Stream V2 with a wrong type, a repeated key, lengths of 2^63, and 100 levels.
const WRONG_CBOR: &[&[u8]] = &[
    b"\xa3\x64type\x65image\x69series_id\x01\x68image_id\x20",
    b"\xa2\x64type\x05\x69series_id\x01",
    b"\xa3\x64type\x63end\x69series_id\x01\x69series_id\x01",
    b"\xa3\x64type\x63end\x69series_id\x01\x61u\x5b\x80\0\0\0\0\0\0\0",
    b"\xa3\x64type\x63end\x69series_id\x01\x61u\x9b\x80\0\0\0\0\0\0\0",
    b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xbf\xbf\xbf\xff",
    &[0x81; 100],
];

struct Upstream {
    name: &'static str,
    protocol: Arc<Zmtp>,
    fixture: IngesterFixture,
    source: Source,
    switch: Switch,
    side: Side,
    behaviour: Behaviour,
}

/// The source of an ingester's one stream.
pub(crate) fn zmtp_source(plan: &Plan) -> Box<dyn Edge> {
    upstream(plan, Messages::Stins, Zmtp { kind: "PUSH", small: &[IMAGE, b"."], wrong: &[] })
}

/// The same with a detector's maps of CBOR.
pub(crate) fn eiger_v2_source(plan: &Plan) -> Box<dyn Edge> {
    upstream(plan, Messages::EigerV2, Zmtp { kind: "PUSH", small: &[EIGER_V2_IMAGE], wrong: WRONG_CBOR })
}

/// The same as one of several ingesters that share the source.
pub(crate) fn stins_parallel_source(plan: &Plan) -> Box<dyn Edge> {
    upstream(plan, Messages::StinsShare, Zmtp { kind: "PUSH", small: &[IMAGE, b"."], wrong: &[] })
}

fn upstream(plan: &Plan, messages: Messages, protocol: Zmtp) -> Box<dyn Edge> {
    let source = Source::start(messages);
    let (switch, side) = Side::servers(source.port);
    Box::new(Upstream {
        name: messages.source(),
        protocol: Arc::new(protocol),
        fixture: IngesterFixture::new(&["eiger"]),
        source,
        switch,
        side,
        behaviour: plan.behaviour,
    })
}

impl Edge for Upstream {
    fn protocol(&self) -> Arc<dyn Protocol> {
        self.protocol.clone()
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        let redis = format!("127.0.0.1:{}", self.fixture.redis.port());
        self.fixture.section(
            redis,
            &format!("source = \"{}\"\nupstream_url = \"tcp://{}\"", self.name, self.switch.address()),
        )
    }

    fn budget(&self) -> u64 {
        // A backlog of 16 MiB (ARCHITECTURE.md), and as much in the socket.
        32 << 20
    }

    fn feed(&mut self, _env: &TestEnv) {
        self.fixture.ensure();
    }

    /// A source that sends nothing owes nothing. The next mapping connects again.
    fn peer_is_frozen(&mut self, _env: &TestEnv) {
        eventually("the mapping to be taken", || self.fixture.is_taken());
        self.fixture.begin();
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
