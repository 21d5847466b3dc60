//! Redis: each mapping of the controller is to be followed.

use std::sync::Arc;

use orchestrator_harness::{TestEnv, free_port};

use super::lab::Lab;
use crate::{
    edge::{Edge, Plan, Side},
    generator::Protocol,
    protocols,
    switch::Switch,
};

struct Control {
    lab: Lab,
    switch: Switch,
    side: Side,
}

/// An ingester's Redis.
pub(crate) fn redis(_plan: &Plan) -> Box<dyn Edge> {
    let lab = Lab::new(&[]);
    let (switch, side) = Side::servers(lab.redis.port());
    Box::new(Control { lab, switch, side })
}

impl Edge for Control {
    fn protocol(&self) -> Arc<dyn Protocol> {
        Arc::new(protocols::Redis)
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        // The source is another edge: nobody listens there, and no mapping uses it.
        let stream = format!("source = \"stins\"\nupstream_url = \"tcp://127.0.0.1:{}\"", free_port());
        self.lab.section(self.switch.address(), &stream)
    }

    fn budget(&self) -> u64 {
        // A reply of 16 MiB, twice while it is taken apart (actors/ingester/README.md).
        32 << 20
    }

    fn feed(&mut self, _env: &TestEnv) {
        self.lab.ensure();
    }

    /// Each attack ends with a mapping that is not taken yet.
    fn peer_is_sane(&mut self, _env: &TestEnv) {
        self.lab.begin();
    }

    fn done(&mut self, _env: &TestEnv) -> u64 {
        self.lab.taken()
    }
}
