//! RabbitMQ shared by all cells, because it starts slowly. Each cell has a virtual host.

use std::{path::PathBuf, sync::OnceLock};

use orchestrator_harness::Rabbit;

use crate::{behaviour::Behaviour, edge::Plan};

/// Edges that use a broker.
pub(crate) const EDGES: [&str; 2] = ["provenance_amqp", "catalog_amqp"];

fn shared() -> &'static Rabbit {
    static SHARED: OnceLock<Rabbit> = OnceLock::new();
    SHARED.get_or_init(|| {
        let rabbit = Rabbit::start();
        let names = EDGES.iter().flat_map(|edge| {
            Behaviour::OF_SERVERS
                .map(|behaviour| Plan { edge, behaviour, is_again: false, directory: PathBuf::new() }.name())
        });
        rabbit.create_vhosts(&names.collect::<Vec<_>>());
        rabbit
    })
}

/// Starts the broker before the first of its cells, with the virtual hosts of their first runs.
pub(crate) fn prepare() {
    shared();
}

/// Port of the broker, and the virtual host of the cell.
pub(crate) fn broker(plan: &Plan) -> (u16, String) {
    if plan.is_again {
        shared().create_vhost(&plan.name());
    }
    (shared().port(), plan.name())
}

/// Direct address of the cell's virtual host.
pub(crate) fn url(plan: &Plan) -> String {
    shared().url_of(&plan.name())
}
