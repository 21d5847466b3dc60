//! The HTTP server for Sardana's posts.

use std::{net::SocketAddr, sync::Arc};

use orchestrator_harness::{TestEnv, free_port, raw_tcp};

use super::fixture::IngesterFixture;
use crate::{
    client::Endpoint,
    edge::{Edge, Plan, Side},
    generator::Protocol,
    protocols::HttpClient,
};

struct Sardana {
    fixture: IngesterFixture,
    address: SocketAddr,
    side: Side,
    accepted: u64,
}

/// An ingester's HTTP source.
pub(crate) fn sardana(_plan: &Plan) -> Box<dyn Edge> {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let side = Side::Clients(Box::new(move |_| Endpoint::Tcp(address)));
    Box::new(Sardana { fixture: IngesterFixture::new(&["eiger"]), address, side, accepted: 0 })
}

impl Edge for Sardana {
    fn protocol(&self) -> Arc<dyn Protocol> {
        Arc::new(HttpClient {
            small: "POST /v1/record_data",
            body: r#"{"timestamp":1}"#,
            posts: "/v1/record_data",
        })
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        let redis = format!("127.0.0.1:{}", self.fixture.redis.port());
        self.fixture.section(redis, &format!("source = \"sardana\"\nlisten = \"{}\"", self.address))
    }

    fn budget(&self) -> u64 {
        // Bodies of 128 MiB at once, and 64 MiB of accepted posts (actors/ingester/README.md).
        (128 + 64) << 20
    }

    fn feed(&mut self, _env: &TestEnv) {
        self.fixture.ensure();
    }

    /// Posts of the attack may have filled the backlog; the next mapping clears it.
    fn peer_is_sane(&mut self, _env: &TestEnv) {
        self.fixture.begin();
    }

    /// Number of accepted records.
    fn done(&mut self, _env: &TestEnv) -> u64 {
        if self.fixture.is_taken() {
            let body = r#"{"timestamp":1}"#;
            let request = format!(
                "POST /v1/record_data HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let answer = raw_tcp(self.address, request.as_bytes());
            self.accepted += u64::from(answer.is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 2")));
        }
        self.accepted
    }
}
