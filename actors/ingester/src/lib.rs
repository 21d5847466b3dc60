//! Ingester subsystem: receives frames from detectors and sends each to the workers its event is
//! assigned to.
//!
//! Replaces dranspose's Python ingesters, with the same Redis keys, worker sockets, source
//! protocols and dump files. [`Ingesters`] registers it with the binary. `CONTRACT.md` beside this
//! crate lists its rules by number.
//!
//! A protocol outside this crate implements [`source::Source`] and is added to the
//! [`source::Registry`] given to [`child_spec_with`]:
//!
//! ```
//! use futures_util::{StreamExt, stream};
//! use orchestrator_ingester::{
//!     child_spec_with,
//!     item::Item,
//!     source::{Items, Registry, Source, SourceCx},
//! };
//!
//! /// Sends one item, then waits.
//! struct Toy;
//!
//! impl Source for Toy {
//!     fn run(&mut self, cx: SourceCx) -> Items {
//!         cx.link.up();
//!         let frames = [b"{}".as_slice().into()].into_iter().collect();
//!         let item = Item { typ: "STINS".into(), frames, number: None };
//!         stream::iter([Ok(item)]).chain(stream::pending()).boxed_local()
//!     }
//! }
//!
//! let registry = Registry::standard().with("toy", |_| Ok(Box::new(Toy)));
//! assert!(child_spec_with(&[], &registry).is_ok());
//! ```
//!
//! Pure rules: `updates`, `parameters`, `mapping`, `assignment`, `alignment`, `header`,
//! `roster`, `ingester_state`, `protocol`, `log_lines`, `zmtp`. Actors: `ingester`,
//! `accept`, `assign`, `work`. All network and file access is under `edge`.

mod accept;
mod alignment;
mod assign;
mod assignment;
mod backlog;
mod class_path;
mod command;
mod config;
mod drop_in;
mod edge;
mod error;
mod explain;
mod header;
mod ingester;
mod ingester_state;
mod log_lines;
mod mapping;
mod measurements;
mod messages;
mod on_finished;
mod parameters;
mod roster;
mod scan_branch;
mod sender_state;
pub mod source;
mod stream;
mod stream_queue;
mod streams;
mod subsystem;
#[cfg(test)]
mod tests;
mod updates;
mod verbs;
mod work;

use std::{path::Path, sync::Arc, time::Duration};

use orchestrator_edge::SettingError;
use orchestrator_exchange::{Exchange, JobQueue};
use orchestrator_supervise::{
    ChildRef, ChildSpec, Durable, Factory, Limits, Outbox, Placement, Shutdown, Strategy, SupervisorSpec,
    inbox, mailbox,
};
use uuid::Uuid;

pub use config::{IngesterConfig, OnGap, StreamConfig};
pub use error::IngesterError;
pub use on_finished::OnFinished;
pub use orchestrator_ingester_protocols::item;
pub use subsystem::Ingesters;

use crate::{
    accept::Accept,
    edge::{
        dump::Dump,
        egress::{self, Egress, EgressLimits},
        jobs::{self, JobCommand},
        redis::{self, Position, RedisTarget},
    },
    explain::History,
    ingester::{ControllerRequests, Handles, Identity, Ingester},
    ingester_state::BuildMeta,
    mapping::Mappings,
    scan_branch::ScanBranch,
    source::Registry,
    streams::Streams,
    work::{Work, WorkContext},
};

/// Capacity of each actor's mailbox, in messages; exceeds the number of streams and of workers that
/// ping at once.
const MAILBOX_CAPACITY: usize = 1_024;
/// Commands that may wait for Redis.
const REDIS_COMMANDS_MAX: usize = 256;
/// `finished` messages that may wait for a stream's child.
const FINISHED_MAX: usize = 4;
/// Events that may wait for the dump; their bytes are bounded separately.
const DUMP_EVENTS_MAX: usize = 65_536;
/// Beginnings and ends of mappings that may wait for their records.
const JOB_COMMANDS_MAX: usize = 64;
/// Time-out for the dump to write its pending events at a stop.
const DUMP_STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Errors that the JSON schema cannot express.
pub(crate) fn check(all: &[IngesterConfig]) -> Vec<String> {
    IngesterConfig::check(all, &Registry::standard())
}

/// One supervisor for each ingester.
///
/// # Errors
/// A key of the configuration is invalid; the text says what to change.
pub(crate) fn child_spec(all: &[IngesterConfig], exchange: &Exchange) -> Result<ChildSpec, IngesterError> {
    build(all, &Registry::standard(), exchange)
}

/// Like [`child_spec`], with the source protocols of `registry`.
///
/// # Errors
/// A key of the configuration is invalid; the text says what to change.
pub fn child_spec_with(all: &[IngesterConfig], registry: &Registry) -> Result<ChildSpec, IngesterError> {
    build(all, registry, &Exchange::default())
}

fn build(
    all: &[IngesterConfig],
    registry: &Registry,
    exchange: &Exchange,
) -> Result<ChildSpec, IngesterError> {
    let mut tree = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::LEAF).independent_branches();
    for config in all {
        let own = ChildRef::default();
        let branch = branch(config, registry, exchange, &own).map_err(IngesterError::Config)?;
        let child = ChildSpec::supervisor(ChildSpec::id_of(&config.name()), branch).reference(&own);
        tree = tree.child(child.label(config.name()).placement(Placement::Dedicated));
    }
    Ok(ChildSpec::supervisor("ingester", tree))
}

/// Checks that each ingester's port is free.
///
/// # Errors
/// A port is in use or an address is invalid; the text says what to change.
pub(crate) fn preflight(all: &[IngesterConfig]) -> Result<(), IngesterError> {
    for config in all {
        let address = config.address().map_err(IngesterError::Config)?;
        egress::probe(address)
            .map_err(|error| IngesterError::Config(format!("ingester {}: {error}", config.name())))?;
    }
    Ok(())
}

/// Builds the supervisor of one ingester, which `own` names. Sinks start first, sources last.
fn branch(
    config: &IngesterConfig,
    registry: &Registry,
    exchange: &Exchange,
    own: &ChildRef,
) -> Result<SupervisorSpec, String> {
    let name: Arc<str> = config.name().into();
    let service_uuid = Uuid::new_v4();
    let ca_file = config.redis_ca_file.as_deref();
    let target = RedisTarget::new(&config.redis()?, ca_file, &name, service_uuid);
    let target = target.map_err(|error| match error {
        SettingError::Authorities { .. } => format!("redis_{error}"),
        SettingError::Value(reason) => reason,
    })?;
    let mappings = Durable::new("mappings", Mappings::default());
    let requests = Durable::new("controller_requests", ControllerRequests::default());
    let sent = Durable::new("sent_events", 0);
    let interrupted = Durable::new("interrupted_mapping", 0);
    let (jobs, jobs_child) = jobs(config, service_uuid, exchange.jobs.as_ref())?.unzip();
    let Streams { queues, makes, source_children, processes } = streams::build(config, registry, &mappings)?;
    let egress = Egress::new(EgressLimits {
        bytes_per_peer: usize::try_from(config.egress_bytes_per_peer).unwrap_or(usize::MAX),
        spill_bytes: config.spill_bytes,
        spill_dir: config.spill_dir.clone(),
        worker_idle: Duration::from_secs(config.worker_idle_secs),
        ..EgressLimits::default()
    });
    let (dump_outbox, dump_slot) = inbox(DUMP_EVENTS_MAX);
    let dump = Dump::new(dump_outbox);
    let (commands, commands_slot) = inbox(REDIS_COMMANDS_MAX);
    let (ingester, ingester_slot) = mailbox::<Ingester>(MAILBOX_CAPACITY);
    let (accept, accept_slot) = mailbox::<Accept>(MAILBOX_CAPACITY);
    let (work, work_slot) = mailbox::<Work>(MAILBOX_CAPACITY);
    let (finished_outboxes, finished_slots): (Vec<_>, Vec<_>) =
        queues.iter().map(|_| inbox(FINISHED_MAX)).unzip();
    let (position, last_entry) = (Position::default(), crate::edge::redis::LastEntry::default());
    let history = Durable::new("ended_mappings", History::default());
    let reports = (egress.clone(), mappings.view());
    let redis =
        redis::factory(target.clone(), commands_slot, ingester.recipient(), position.clone(), reports);
    let workers = egress::factory(config.address()?, egress.clone(), accept.recipient());
    let identity = Arc::new(Identity {
        name,
        url: config.url(),
        service_uuid,
        build: build_meta(&config.build_meta_file),
    });
    let (scan_child, redis_child) = (ChildRef::default(), ChildRef::default());
    let handles = Handles {
        streams: queues.clone(),
        mappings: mappings.clone(),
        requests: requests.clone(),
        sent: sent.view(),
        work: work.recipient(),
        finished_outboxes: finished_outboxes.into(),
        redis: commands,
        dump: dump.outbox().clone(),
        jobs: jobs.clone(),
        on_finished: config.on_finished.clone(),
        history: history.clone(),
        locate: work.recipient(),
        last_entry: last_entry.clone(),
        interrupted: interrupted.view(),
        egress: egress.clone(),
        scan: scan_child.clone(),
        redis_child: redis_child.clone(),
        position: position.clone(),
        redis_endpoint: target.endpoint().into(),
        redis_cli: target.cli_options().into(),
        dump_path: config.dump_path.clone(),
    };
    let ingester_factory =
        Factory::actor(ingester_slot, move |cx| Ok(Ingester::new(identity.clone(), handles.clone(), cx)));
    let seen = ingester.recipient();
    let accept_factory = Factory::actor(accept_slot, move |cx| Ok(Accept::new(seen.clone(), &cx.vitals)));
    let scan = ScanBranch {
        target: target.clone(),
        last_entry,
        context: WorkContext {
            streams: queues,
            mappings: mappings.view(),
            begun: Durable::new("begun_mapping", 0),
            interrupted,
            sent,
            ingester: ingester.recipient(),
            egress: egress.clone(),
            dump: dump.clone(),
            dump_overflow: config.dump_overflow,
            on_gap: config.on_gap,
        },
        ingester: ingester.clone(),
        work,
        work_slot,
        makes,
        processes,
        finished_slots,
        hook_events: exchange.hook_events.clone(),
    };
    let workers = egress.add_durable_state(ChildSpec::worker("egress", workers)).sends_to(&accept);
    let ingester_child = ChildSpec::worker("ingester", ingester_factory)
        .attach(Ingester::verbs().console(&ingester))
        .durable(&mappings)
        .durable(&requests)
        .durable(&history)
        .sends_to(&scan_child)
        .sends_to(&redis_child)
        .sends_to(dump.outbox());
    let ingester_child = jobs.iter().fold(ingester_child, ChildSpec::sends_to);
    let redis = position.add_durable_state(ChildSpec::worker("redis", redis)).reference(&redis_child);
    let children = SupervisorSpec::new(Strategy::RestForOne)
        .child(ChildSpec::worker("spill", egress::spill_factory(egress)))
        .child(
            ChildSpec::worker("dump", dump.factory(&dump_slot)).shutdown(Shutdown::After(DUMP_STOP_TIMEOUT)),
        )
        .child(redis.waits_for(&ingester))
        .child(workers)
        .child(ingester_child)
        .child(ChildSpec::worker("accept", accept_factory).sends_to(&ingester));
    let all = source_children.into_iter().fold(children, SupervisorSpec::child);
    let all = all
        .child(ChildSpec::supervisor("scan", scan.spec()).reference(&scan_child))
        // Started last, so that `RestForOne` restarts no scan with them.
        .child(redis::log_child(target, own));
    Ok(jobs_child.into_iter().fold(all, SupervisorSpec::child))
}

/// Builds the child that offers jobs for finished mappings, if it is configured.
fn jobs(
    config: &IngesterConfig,
    process: Uuid,
    queue: Option<&JobQueue>,
) -> Result<Option<(Outbox<JobCommand>, ChildSpec)>, String> {
    let Some(on_finished) = &config.on_finished else { return Ok(None) };
    let queue = queue.cloned().ok_or_else(|| {
        format!(
            "ingester.{}.on_finished: this process has no queue for the jobs: configure [queue]",
            config.name()
        )
    })?;
    let (commands, slot) = inbox(JOB_COMMANDS_MAX);
    let factory = jobs::factory(&config.name(), process, on_finished.clone(), queue.clone(), &slot);
    Ok(Some((commands, ChildSpec::worker("jobs", factory).waits_for(&queue.offered))))
}

/// Reads the build's metadata. None if the file is missing or incomplete, as in the original.
fn build_meta(path: &Path) -> Option<BuildMeta> {
    let text = orchestrator_edge::read_text(path).ok()?;
    serde_json::from_str(&text)
        .inspect_err(|error| tracing::warn!(?path, %error, "invalid build metadata is ignored"))
        .ok()
}
