//! The port that an ingester's workers connect to.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use orchestrator_harness::TestEnv;

use super::lab::{Lab, Source, gets_event};
use crate::{
    client::Endpoint,
    edge::{Edge, Plan, Side},
    generator::Protocol,
    protocols::Zmtp,
};

/// Time that a new worker waits for its event before another one is tried.
const WAIT: Duration = Duration::from_millis(500);

struct Workers {
    lab: Lab,
    source: Source,
    side: Side,
    served: u64,
    number: u64,
}

/// An ingester's port for workers.
pub(crate) fn zmtp_worker(_plan: &Plan) -> Box<dyn Edge> {
    let lab = Lab::new(&["eiger"]);
    let address = SocketAddr::from(([127, 0, 0, 1], lab.port));
    let side = Side::Clients(Box::new(move |_| Endpoint::Tcp(address)));
    Box::new(Workers { lab, source: Source::start(), side, served: 0, number: 0 })
}

impl Edge for Workers {
    fn protocol(&self) -> Arc<dyn Protocol> {
        Arc::new(Zmtp { kind: "DEALER", small: &[b""] })
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        let redis = format!("127.0.0.1:{}", self.lab.redis.port());
        let stream = format!("source = \"stins\"\nupstream_url = \"tcp://127.0.0.1:{}\"", self.source.port);
        self.lab.section(redis, &stream)
    }

    fn budget(&self) -> u64 {
        // Frames that nobody is assigned to, up to the backlog of 16 MiB (ARCHITECTURE.md).
        16 << 20
    }

    fn feed(&mut self, _env: &TestEnv) {
        self.lab.ensure();
    }

    /// A new worker gets an event of its own.
    fn done(&mut self, _env: &TestEnv) -> u64 {
        if self.lab.is_taken() {
            self.number += 1;
            let worker = format!("w{}", self.number);
            self.served +=
                u64::from(gets_event(self.lab.port, &worker, WAIT, || self.lab.assign(1, &worker)));
        }
        self.served
    }
}
