//! RabbitMQ shared by all cells, because it starts slowly. Each cell has a virtual host.

use std::sync::OnceLock;

use orchestrator_harness::Rabbit;

use crate::{behaviour::Behaviour, edge::Plan};

/// Edges that use a broker.
pub(crate) const EDGES: [&str; 2] = ["provenance_amqp", "catalog_amqp"];

fn vhost(edge: &str, behaviour: Behaviour) -> String {
    format!("{edge}_{behaviour}")
}

fn shared() -> &'static Rabbit {
    static SHARED: OnceLock<Rabbit> = OnceLock::new();
    SHARED.get_or_init(|| {
        let rabbit = Rabbit::start();
        let names =
            EDGES.iter().flat_map(|edge| Behaviour::OF_SERVERS.map(|behaviour| vhost(edge, behaviour)));
        rabbit.create_vhosts(&names.collect::<Vec<_>>());
        rabbit
    })
}

/// Starts the broker before the first of its cells.
pub(crate) fn prepare() {
    shared();
}

/// Port of the broker, and the virtual host of the cell.
pub(crate) fn broker(plan: &Plan) -> (u16, String) {
    (shared().port(), vhost(plan.edge, plan.behaviour))
}

/// Direct address of the cell's virtual host.
pub(crate) fn url(plan: &Plan) -> String {
    shared().url_of(&vhost(plan.edge, plan.behaviour))
}
