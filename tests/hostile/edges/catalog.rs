//! The catalog's edges. Completed work: rows that were claimed and completed.

use std::{sync::Arc, time::Instant};

use orchestrator_harness::{Ermrest, LEASED_RULE, TestEnv};
use serde_json::json;

use crate::{
    edge::{Edge, Plan, Side},
    edges::broker,
    generator::Protocol,
    protocols,
};

/// Maximum number of unclaimed rows.
const WAITING: u64 = 5;

struct Catalog {
    server: Ermrest,
    sections: String,
    protocol: Arc<dyn Protocol>,
    side: Side,
    budget: u64,
    rows: u64,
    done: u64,
    inserted: Instant,
    /// Rows are found through notices only.
    uses_notices: bool,
}

/// The catalog's HTTP server.
pub(crate) fn ermrest(_plan: &Plan) -> Box<dyn Edge> {
    let server = Ermrest::start(&[]);
    let (switch, side) = Side::servers(server.port());
    let sections = format!(
        "[[catalog]]\nname = \"lab\"\nbase = \"http://{}/ermrest/catalog/1\"\namqp = \"\"\npoll_without_notices_secs = 0.25\n{LEASED_RULE}",
        switch.address()
    );
    // A response of up to 64 MiB is read before it is parsed.
    let (protocol, budget) = (Arc::new(protocols::HttpServer), 64 << 20);
    Box::new(Catalog {
        server,
        sections,
        protocol,
        side,
        budget,
        rows: 0,
        done: 0,
        inserted: Instant::now(),
        uses_notices: false,
    })
}

/// The catalog's change notices, with polling effectively off.
pub(crate) fn amqp(plan: &Plan) -> Box<dyn Edge> {
    let (port, vhost) = broker::broker(plan);
    let (switch, side) = Side::servers(port);
    let server = Ermrest::start(&["--amqp", &broker::url(plan)]);
    let sections = format!(
        "[[catalog]]\nname = \"lab\"\nbase = \"{}\"\namqp = \"amqp://guest:guest@{}/{vhost}\"\n\
         poll_secs = 600.0\npoll_without_notices_secs = 600.0\n{LEASED_RULE}",
        server.url(),
        switch.address()
    );
    // Buffers for 64 frames of 8 KiB.
    let (protocol, budget) = (Arc::new(protocols::Amqp), 1 << 20);
    Box::new(Catalog {
        server,
        sections,
        protocol,
        side,
        budget,
        rows: 0,
        done: 0,
        inserted: Instant::now(),
        uses_notices: true,
    })
}

impl Edge for Catalog {
    fn protocol(&self) -> Arc<dyn Protocol> {
        self.protocol.clone()
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        self.sections.clone()
    }

    fn budget(&self) -> u64 {
        self.budget
    }

    fn feed(&mut self, _env: &TestEnv) {
        // Each insert also sends a notice.
        if self.rows < self.done + WAITING && self.inserted.elapsed().as_millis() > 100 {
            self.rows += 1;
            self.server.insert("Foo", &json!([{"id": self.rows, "state": "actionable"}]), "");
            self.inserted = Instant::now();
        }
    }

    fn done(&mut self, env: &TestEnv) -> u64 {
        // The first poll at the start needs no notice.
        if self.uses_notices && self.done == 0 && env.link("catalog/lab/notices").state != "up" {
            return 0;
        }
        self.done = self.server.rows("Foo").iter().filter(|row| row["state"] == "complete").count() as u64;
        self.done
    }
}
