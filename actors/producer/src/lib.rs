//! The producer subsystem: turns stencils in MongoDB into jobs in Faktory, each once.
//!
//! It takes the place of the Python producer of a tanglenomicon: the same documents, the same jobs, in the same order.
//! [`child_spec`] gives its tree; `CONTRACT.md` beside this crate has its rules by number.
//!
//! Pure rules: [`advance`] (when a TCN is complete, what becomes of stencils), [`pages`] and [`pair`] (which jobs, in which
//! order), [`cursor`] (how far a stencil came), [`job`] and [`batch`] (what a job is on the wire), [`reading`] (what the
//! queue's server says), [`watermark`], [`lease`]. [`perform`] does what they say over a [`store`] and a [`queue`], at a
//! [`pace`]; [`producer`] is the actor. Everything that talks to the outside is under [`edge`].

pub mod advance;
pub mod batch;
mod command;
mod config;
pub mod cursor;
mod drop_in;
pub mod edge;
mod error;
pub mod id;
pub mod job;
pub mod lease;
pub mod pace;
pub mod pages;
pub mod pair;
pub mod perform;
pub mod plan;
mod planning;
pub mod producer;
mod progress;
pub mod queue;
pub mod reading;
pub mod status;
pub mod stencil;
pub mod store;
mod subsystem;
pub mod walk;
pub mod watermark;

use std::time::Duration;

use orchestrator_edge::mongodb;
use orchestrator_supervise::{
    ChildSpec, Limits, Placement, Restart, Shutdown, Strategy, SupervisorSpec, mailbox,
};

pub use config::{Compat, FaktoryConfig, MongoConfig, ProducerConfig};
pub use error::ProducerError;
pub use planning::dry_run;
pub use subsystem::Producer;

use crate::{
    edge::faktory::{self, FaktoryQueue, Flow, Patience},
    producer::StencilProducer,
};

/// The actor's place in the subsystem's tree; it ends by itself where `until_done` is set.
pub const ACTOR: &str = "producer/stencil_producer";

/// Messages that may wait for the actor: operators' questions only.
const QUESTIONS: usize = 16;

/// The subsystem's tree: the connections to Faktory, then who pushes through them. The actor holds the connection to MongoDB itself.
///
/// # Errors
/// Faktory's url, or the file of authorities, cannot be used; the text begins with the key.
pub fn child_spec(config: &ProducerConfig) -> Result<ChildSpec, ProducerError> {
    let server = config.faktory.server().map_err(ProducerError::Config)?;
    let flow = Flow { connections: config.connections.into(), ..Flow::default() };
    let (faktory, connections) = faktory::child_spec(server, flow);
    let status = producer::status();
    let terms = config.terms();
    let queue = FaktoryQueue::new(faktory, &terms)
        .map_err(|error| ProducerError::Config(format!("producer: {error}")))?;
    let (mailbox, slot) = mailbox::<StencilProducer<FaktoryQueue>>(QUESTIONS);
    let actor = producer::factory(config, &terms.queue, slot, &status, move |cx| queue.until(&cx.stop));
    let actor = ChildSpec::worker("stencil_producer", actor)
        // What `until_done` waited for is there: no reason to start again.
        .restart(Restart::Transient)
        .shutdown(drain())
        .console(mailbox.recipient())
        .durable(&status);
    let tree = SupervisorSpec::new(Strategy::RestForOne).limits(Limits::LEAF).child(connections).child(actor);
    Ok(ChildSpec::supervisor("producer", tree).placement(Placement::Dedicated))
}

/// A reply that is on its way is waited for, and noted in the database: what is given up would be pushed twice.
fn drain() -> Shutdown {
    Shutdown::After(Patience::default().reply + Duration::from_secs(2))
}

/// Finds what keeps the producer from ever working: an address of the database that is none.
///
/// # Errors
/// What the operator has to change. A server that is away, or a file that is missing yet, is none: it is waited for.
pub fn preflight(config: &ProducerConfig) -> Result<(), ProducerError> {
    let Ok(uri) = config.mongodb.target() else { return Ok(()) };
    let key = if config.mongodb.uri_file.is_some() { "uri_file" } else { "uri" };
    mongodb::check_address(&uri)
        .map_err(|error| ProducerError::Config(format!("producer.mongodb.{key}: {error}")))
}
