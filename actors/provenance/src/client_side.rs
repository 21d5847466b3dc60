//! The client's side of the tree: what takes rows and questions. In the subsystem's tree it stands behind the workers; a
//! command that acts as the original's client has it alone, with the servers wherever the broker leads to.

use std::{sync::Arc, time::Duration};

use orchestrator_edge::amqp::Broker;
use orchestrator_supervise::{
    ChildSpec, ConsoleRequest, Factory, Limits, Mailbox, Outbox, Placement, Recipient, Strategy,
    SupervisorSpec, inbox, mailbox,
};

use crate::{
    call::{self, Route, Workers},
    config::ProvenanceConfig,
    edge::{
        amqp::{self, Patience, Publication},
        statsd::Statsd,
        stores,
    },
    error::ProvenanceError,
    messages::ReadRequest,
    rmq_client::RmqClient,
    stopwatch::Sample,
};

/// Questions that may wait.
pub(crate) const READS: usize = 64;
/// Calls that may wait for the client, and for the publisher.
const CALLS: usize = 1_024;
/// For a client whose calls may take as long as its configuration lets them wait for responses.
const UNLIMITED: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A client without servers: rows go to the broker, questions straight to the store. Answers the verbs of the console, and
/// takes as long as the configured waits allow.
///
/// # Errors
/// The broker's url cannot be used, or a variable of statsd.
pub(crate) fn client_spec(
    config: &ProvenanceConfig,
) -> Result<(Recipient<ConsoleRequest>, ChildSpec), ProvenanceError> {
    let (reads, reads_slot) = inbox(READS);
    let reader = ChildSpec::worker("reader", stores::reader(config, &reads_slot)?);
    let tree = SupervisorSpec::new(Strategy::RestForOne).limits(Limits::LEAF).child(reader);
    let (client, tree) = attach(tree, config, None, reads, UNLIMITED)?;
    Ok((client.recipient(), ChildSpec::supervisor("provenance", tree).placement(Placement::Dedicated)))
}

/// `tree` with the client's side: straight to `workers`, or without them to the broker. An operator's call may take `limit`.
pub(crate) fn attach(
    mut tree: SupervisorSpec,
    config: &ProvenanceConfig,
    workers: Option<Workers>,
    reads: Outbox<ReadRequest>,
    limit: Duration,
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
            let (calls, slot) = inbox(CALLS);
            let broker = broker(config, "orchestrator provenance client")?;
            let publisher = amqp::client(broker, publication(config, statsd.clone()), &slot);
            tree = tree.child(ChildSpec::worker("publisher", publisher));
            call::Transport::Amqp(calls)
        }
    };
    let route = Arc::new(Route { routing: config.routing, batch: config.client.batch as usize, transport });
    let (mailbox, slot) = mailbox::<RmqClient>(CALLS);
    let client = Factory::actor(slot, move |cx| {
        Ok(RmqClient::new(route.clone(), reads.clone(), limit, statsd.clone(), cx))
    });
    let child = ChildSpec::worker("rmq_client", client).console(mailbox.recipient());
    Ok((mailbox, tree.child(child)))
}

/// The broker, as it lists this connection.
pub(crate) fn broker(config: &ProvenanceConfig, name: &str) -> Result<Broker, ProvenanceError> {
    let config = &config.amqp;
    let url = config.target().map_err(ProvenanceError::Config)?;
    let broker = Broker::with_authorities(&url, name, config.ca_file.as_deref());
    broker.map_err(|error| ProvenanceError::Config(format!("provenance.amqp: {error}")))
}

fn publication(config: &ProvenanceConfig, statsd: Option<Outbox<Sample>>) -> Publication {
    let client = &config.client;
    let patience = Patience {
        batch_size: client.batch,
        wait_per_batch: Duration::from_secs(client.wait_per_batch_secs.into()),
        wait_min: Duration::from_secs(client.wait_min_secs.into()),
    };
    let topology = config.amqp.topology;
    Publication { topology, patience, prefetch: client.prefetch, statsd, ..Publication::default() }
}
