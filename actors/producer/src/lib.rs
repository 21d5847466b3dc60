//! Producer subsystem: turns stencils in MongoDB into jobs in Faktory.
//!
//! It replaces the Python producer of a tanglenomicon: same documents, same jobs, same order. [`Producer`]
//! registers it with the binary. `CONTRACT.md` beside this crate has the rules by number.
//!
//! | modules | content |
//! |---|---|
//! | crate `orchestrator-producer-rules` | jobs of a stencil, completion of a TCN, lease, format of jobs |
//! | `completion` | completed TCNs and their deliveries |
//! | `executor` | actions of the state machine over a `store`, a `queue` and an `environment` |
//! | `producer` | the actor |
//! | `edge` | MongoDB, Faktory, and the receiver of completed TCNs |

mod command;
mod completion;
mod config;
mod drop_in;
mod dry_run;
mod edge;
mod environment;
mod error;
mod executor;
mod holder;
mod plan;
mod producer;
mod progress;
mod queue;
mod status;
mod store;
mod subsystem;
#[cfg(test)]
mod tests;
mod verbs;
mod walk;

use std::time::Duration;

use orchestrator_edge::mongodb;
use orchestrator_supervise::{
    ChildSpec, Limits, Placement, Restart, Shutdown, Strategy, SupervisorSpec, mailbox,
};

pub use config::{Compat, FaktoryConfig, MongoConfig, OnCompleteConfig, ProducerConfig};
pub use dry_run::dry_run;
pub use error::ProducerError;
pub use subsystem::Producer;

/// Parts that the benches use.
pub mod bench {
    pub use crate::edge::faktory::{PendingPush, PoolOptions, Server, child_spec};
}

use crate::{
    edge::{
        faktory::{self, FaktoryQueue, PoolOptions},
        on_complete,
    },
    producer::StencilProducer,
};

/// Path of the actor in the tree.
pub(crate) const ACTOR: &str = "producer/stencil_producer";

/// Mailbox capacity of the actor, which receives only operators' requests.
const MAILBOX_CAPACITY: usize = 16;

/// Shutdown time-out of the actor: its drain and the release of the lease.
const STOP_TIMEOUT: Shutdown = Shutdown::After(Duration::from_secs(5));

/// Returns the subsystem's tree: the connections to Faktory, the deliveries of completed TCNs, then the
/// actor.
///
/// # Errors
/// An address or a `ca_file` cannot be used. The text begins with the key.
pub(crate) fn child_spec(config: &ProducerConfig) -> Result<ChildSpec, ProducerError> {
    let server = config.faktory.server().map_err(ProducerError::Config)?;
    let flow = PoolOptions {
        connections: config.connections.into(),
        queue_gauges: config.queue_gauges,
        ..PoolOptions::default()
    };
    let (faktory, connections) = faktory::child_spec(server, flow);
    let status = producer::status();
    let job_options = config.job_options().map_err(ProducerError::Config)?;
    let queue = FaktoryQueue::new(faktory, &job_options)
        .map_err(|error| ProducerError::Config(format!("producer.{error}")))?;
    let on_complete =
        config.on_complete.is_configured().then(|| on_complete::child_spec(&config.on_complete));
    let (completions, deliveries) = on_complete.transpose().map_err(ProducerError::Config)?.unzip();
    let (mailbox, slot) = mailbox::<StencilProducer<FaktoryQueue>>(MAILBOX_CAPACITY);
    let queues = job_options.all_queues();
    let siblings = producer::Siblings::default();
    let state = (&status, &siblings);
    let deliver = completions.clone();
    let actor = producer::factory(config, queues, completions, slot, state, move |cx| queue.until(&cx.stop));
    let actor = ChildSpec::worker("stencil_producer", actor)
        // A normal end means that `until_done` is reached.
        .restart(Restart::Transient)
        .shutdown(STOP_TIMEOUT)
        .attach(StencilProducer::verbs().console(&mailbox))
        .durable(&status)
        .sends_to(&siblings.pool);
    let actor = deliver.iter().fold(actor, ChildSpec::sends_to);
    let tree = SupervisorSpec::new(Strategy::RestForOne)
        .limits(Limits::LEAF)
        .child(connections.reference(&siblings.pool));
    let tree = deliveries.into_iter().fold(tree, SupervisorSpec::child).child(actor);
    Ok(ChildSpec::supervisor("producer", tree).placement(Placement::Dedicated).reference(&siblings.branch))
}

/// Checks the database's address.
///
/// # Errors
/// The address is invalid. A server that is unavailable, or a missing `uri_file`, is no error.
pub(crate) fn preflight(config: &ProducerConfig) -> Result<(), ProducerError> {
    let Ok(uri) = config.mongodb.target() else { return Ok(()) };
    let key = if config.mongodb.uri_file.is_some() { "uri_file" } else { "uri" };
    mongodb::check_address(&uri)
        .map_err(|error| ProducerError::Config(format!("producer.mongodb.{key}: {error}")))
}
