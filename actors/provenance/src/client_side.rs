//! Client part of the supervision tree. The subsystem has it behind the workers. A command that
//! acts as the original's client runs it alone (CONTRACT PF09).

use std::{sync::Arc, time::Duration};

use orchestrator_edge::amqp::Broker;
use orchestrator_subsystem::{Exports, Verbs};
use orchestrator_supervise::{
    ChildSpec, Factory, Limits, Mailbox, Outbox, Placement, Strategy, SupervisorSpec, inbox, mailbox,
};

use crate::{
    call::{self, Route, Workers},
    call_timers::Sample,
    config::ProvenanceConfig,
    edge::{
        amqp::{self, PublisherOptions, ResponseTimeouts},
        statsd::Statsd,
        stores,
    },
    error::ProvenanceError,
    export,
    messages::ReadRequest,
    rmq_client::RmqClient,
};

/// Capacity of the reader's inbox.
pub(crate) const QUERY_CAPACITY: usize = 64;
/// Capacity of the mailbox of the client and of the inbox of the publisher.
const CALL_CAPACITY: usize = 1_024;
/// Time-out of a client whose calls end by their own response time-outs.
const UNLIMITED: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Returns the mailbox, the exports and the tree of a client without workers: rows go to the broker, queries
/// to the store. Its calls take as long as the configured response time-outs allow.
///
/// # Errors
/// The broker's url or a statsd variable is invalid.
pub(crate) fn client_spec(
    config: &ProvenanceConfig,
) -> Result<(Mailbox<RmqClient>, Exports, ChildSpec), ProvenanceError> {
    let (reads, reads_slot) = inbox(QUERY_CAPACITY);
    let reader = ChildSpec::worker("reader", stores::reader(config, &reads_slot)?);
    let tree = SupervisorSpec::new(Strategy::RestForOne).limits(Limits::LEAF).child(reader);
    let exports = export::exports(reads.clone());
    let (client, tree) = attach(tree, config, None, reads, UNLIMITED, Verbs::default())?;
    let tree = ChildSpec::supervisor("provenance", tree).placement(Placement::Dedicated);
    Ok((client, exports, tree))
}

/// Adds the client to `tree`, with the given workers or else the broker as its transport. `limit`
/// is the time-out of a console call.
pub(crate) fn attach(
    mut tree: SupervisorSpec,
    config: &ProvenanceConfig,
    workers: Option<Workers>,
    reads: Outbox<ReadRequest>,
    limit: Duration,
    verbs: Verbs<RmqClient>,
) -> Result<(Mailbox<RmqClient>, SupervisorSpec), ProvenanceError> {
    let mut statsd = None;
    if let Some(target) =
        Statsd::from_variables(|name| std::env::var(name).ok()).map_err(ProvenanceError::Config)?
    {
        let (samples, child) = target.child_spec();
        statsd = Some(samples);
        tree = tree.child(child);
    }
    let transport = match workers {
        Some(workers) => call::Transport::Embedded(workers),
        None => {
            let (calls, slot) = inbox(CALL_CAPACITY);
            let broker = broker(config, "orchestrator provenance client")?;
            let publisher = amqp::client(broker, publisher_options(config, statsd.clone()), &slot);
            let publisher = ChildSpec::worker("publisher", publisher);
            tree = tree.child(statsd.iter().fold(publisher, ChildSpec::sends_to));
            call::Transport::Amqp(calls)
        }
    };
    let route = Arc::new(Route { routing: config.routing, batch: config.client.batch as usize, transport });
    let (mailbox, slot) = mailbox::<RmqClient>(CALL_CAPACITY);
    let (transport, queries, samples) = (route.clone(), reads.clone(), statsd.clone());
    let client = Factory::actor(slot, move |cx| {
        Ok(RmqClient::new(route.clone(), reads.clone(), limit, statsd.clone(), cx))
    });
    let child = ChildSpec::worker("rmq_client", client).attach(verbs.console(&mailbox)).waits_for(&queries);
    let child = samples.iter().fold(transport.transport.declare(child), ChildSpec::sends_to);
    Ok((mailbox, tree.child(child)))
}

/// The connection is listed under `name`.
pub(crate) fn broker(config: &ProvenanceConfig, name: &str) -> Result<Broker, ProvenanceError> {
    let config = &config.amqp;
    let url = config.target().map_err(|error| ProvenanceError::Config(error.to_string()))?;
    let broker = Broker::with_authorities(&url, name, config.ca_file.as_deref());
    broker.map_err(|error| ProvenanceError::Config(format!("provenance.amqp: {error}")))
}

fn publisher_options(config: &ProvenanceConfig, statsd: Option<Outbox<Sample>>) -> PublisherOptions {
    let client = &config.client;
    let timeouts = ResponseTimeouts {
        batch_size: client.batch,
        wait_per_batch: Duration::from_secs(client.wait_per_batch_secs.into()),
        wait_min: Duration::from_secs(client.wait_min_secs.into()),
    };
    let topology = config.amqp.topology.unwrap_or_default();
    PublisherOptions { topology, timeouts, prefetch: client.prefetch, statsd, ..PublisherOptions::default() }
}
