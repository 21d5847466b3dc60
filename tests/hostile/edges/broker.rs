//! One RabbitMQ for all cells, with a virtual host for each: it takes long to start.

use std::sync::OnceLock;

use orchestrator_harness::Rabbit;

use crate::{behaviour::Behaviour, edge::Plan};

/// Edges that have a broker.
pub(crate) const EDGES: [&str; 2] = ["provenance_amqp", "catalog_amqp"];

fn vhost(edge: &str, behaviour: Behaviour) -> String {
    format!("{edge}_{behaviour}")
}

fn shared() -> &'static Rabbit {
    static SHARED: OnceLock<Rabbit> = OnceLock::new();
    SHARED.get_or_init(|| {
        let rabbit = Rabbit::start();
        let names = EDGES.iter().flat_map(|edge| Behaviour::ALL.map(|behaviour| vhost(edge, behaviour)));
        rabbit.create_vhosts(&names.collect::<Vec<_>>());
        rabbit
    })
}

/// Starts it, so that it is there when the first of its cells begins.
pub(crate) fn prepare() {
    shared();
}

/// Its port, and the virtual host of the cell.
pub(crate) fn broker(plan: &Plan) -> (u16, String) {
    (shared().port(), vhost(plan.edge, plan.behaviour))
}

/// Where the virtual host of the cell is, past every switch.
pub(crate) fn url(plan: &Plan) -> String {
    shared().url_of(&vhost(plan.edge, plan.behaviour))
}
