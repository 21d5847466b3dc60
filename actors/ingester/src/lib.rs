//! The ingester subsystem: takes frames from detectors and hands each to the workers that its event is assigned to.
//!
//! It takes the place of dranspose's Python ingesters: the same Redis keys, worker sockets, source protocols and dump files.
//! [`child_spec`] gives its tree; a protocol of your own is a [`source::Source`] in the [`source::Registry`] that
//! [`child_spec_with`] takes. `CONTRACT.md` beside this crate has its rules by number.
//!
//! Pure rules: [`updates`], [`parameters`], [`mapping`], [`assignment`], [`alignment`], [`header`], [`roster`], [`presence`], [`protocol`],
//! [`trouble`], [`zmtp`]. Actors: `ingester`, `accept`, `assign`, `work`. Everything that talks to the outside is under [`edge`].

mod accept;
pub mod alignment;
mod assign;
pub mod assignment;
pub mod backlog;
mod command;
mod config;
mod drop_in;
pub mod edge;
mod error;
pub mod header;
mod ingester;
pub mod item;
pub mod mapping;
pub mod messages;
pub mod parameters;
pub mod presence;
pub mod protocol;
pub mod roster;
pub mod source;
mod stream;
pub mod stream_queue;
mod subsystem;
pub mod trouble;
pub mod updates;
mod work;
pub mod zmtp;

use std::{path::Path, sync::Arc, time::Duration};

use orchestrator_supervise::{
    ChildSpec, Durable, Factory, InboxSlot, Limits, Mailbox, MailboxSlot, OnRestart, Outbox, Placement,
    Shutdown, StartCx, Strategy, SupervisorSpec, inbox, mailbox,
};
use uuid::Uuid;

pub use config::{IngesterConfig, OnGap, StreamConfig};
pub use error::IngesterError;
pub use subsystem::Ingesters;

use crate::{
    accept::Accept,
    assign::Assign,
    edge::{
        dump::Dump,
        egress::{self, Egress, EgressLimits},
        redis::{self, Place, Position},
    },
    ingester::{Handles, Identity, Ingester},
    mapping::Mappings,
    messages::{MappingFinished, RedisCommand},
    presence::BuildMeta,
    source::{MakeSource, Registry, Supply},
    stream::StreamSpec,
    stream_queue::{StreamQueue, StreamQueues},
    work::{Tools, Work},
};

/// Messages that may wait for an actor: more than there are workers' pings, or streams.
const NOTICES: usize = 1_024;
/// Commands that may wait for Redis.
const COMMANDS: usize = 256;
/// Ends of mappings that may wait for a stream's child, which takes them at once.
const ENDS: usize = 4;
/// Events that may wait for the dump; their bytes are bounded besides.
const DUMPED: usize = 65_536;
/// How long a part of a scan may take to stop: nothing in it is worth waiting for.
const STOP: Duration = Duration::from_millis(500);
/// How long the dump may take to write what waits.
const DUMP_STOP: Duration = Duration::from_secs(10);

/// What a schema cannot say of the sections: everything that the operator has to change.
pub fn check(all: &[IngesterConfig]) -> Vec<String> {
    IngesterConfig::check(all, &Registry::standard())
}

/// The subsystem's tree: a branch for each ingester.
///
/// # Errors
/// What the operator has to change.
pub fn child_spec(all: &[IngesterConfig]) -> Result<ChildSpec, IngesterError> {
    child_spec_with(all, &Registry::standard())
}

/// As [`child_spec`], with protocols of your own.
///
/// # Errors
/// What the operator has to change.
pub fn child_spec_with(all: &[IngesterConfig], registry: &Registry) -> Result<ChildSpec, IngesterError> {
    let mut tree = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::LEAF);
    for config in all {
        let branch = branch(config, registry).map_err(IngesterError::Config)?;
        let id = ChildSpec::id_of(&config.name());
        tree = tree
            .child(ChildSpec::supervisor(id, branch).label(config.name()).placement(Placement::Dedicated));
    }
    Ok(ChildSpec::supervisor("ingester", tree))
}

/// Finds what keeps an ingester from starting: a port that is taken.
///
/// # Errors
/// What the operator has to change.
pub fn preflight(all: &[IngesterConfig]) -> Result<(), IngesterError> {
    for config in all {
        let address = config.address().map_err(IngesterError::Config)?;
        egress::probe(address)
            .map_err(|error| IngesterError::Config(format!("ingester {}: {error}", config.name())))?;
    }
    Ok(())
}

/// One ingester. Sinks first: what keeps and sends, then who says what to send, then the sources.
fn branch(config: &IngesterConfig, registry: &Registry) -> Result<SupervisorSpec, String> {
    let name: Arc<str> = config.name().into();
    let service_uuid = Uuid::new_v4();
    let place = Place::new(&config.redis()?, &name, service_uuid)?;
    let Streams { queues, makes, companions } = streams(config, registry)?;
    let egress = Egress::new(EgressLimits {
        bytes_per_peer: usize::try_from(config.egress_bytes_per_peer).unwrap_or(usize::MAX),
        spill_bytes: config.spill_bytes,
        spill_dir: config.spill_dir.clone(),
        ..EgressLimits::default()
    });
    let (dump_outbox, dump_slot) = inbox(DUMPED);
    let dump = Dump::new(dump_outbox);
    let (commands, commands_slot) = inbox(COMMANDS);
    let (ingester, ingester_slot) = mailbox::<Ingester>(NOTICES);
    let (accept, accept_slot) = mailbox::<Accept>(NOTICES);
    let (work, work_slot) = mailbox::<Work>(NOTICES);
    let (ends, ends_slots): (Vec<_>, Vec<_>) = queues.iter().map(|_| inbox(ENDS)).unzip();
    let mappings = Durable::new("mappings", Mappings::default());
    let position = Position::default();
    let redis = redis::factory(place.clone(), commands_slot, ingester.recipient(), position.clone());
    let workers = egress::factory(config.address()?, egress.clone(), accept.recipient());
    let following = Following {
        config: config.clone(),
        identity: Arc::new(Identity {
            name,
            url: config.url(),
            service_uuid,
            build: build_meta(&config.build_meta_file),
        }),
        queues: queues.clone(),
        mappings: mappings.clone(),
        work: work.clone(),
        ends: ends.into(),
        commands,
        dump: dump.clone(),
        egress: egress.clone(),
    };
    let seen = ingester.recipient();
    let accepting = Factory::actor(accept_slot, move |cx| Ok(Accept::new(seen.clone(), &cx.vitals)));
    let scan = ScanBranch {
        place: place.clone(),
        tools: Tools {
            streams: queues,
            mappings: mappings.view(),
            begun: Durable::new("begun_mapping", 0),
            ingester: ingester.recipient(),
            egress: egress.clone(),
            dump: dump.clone(),
            on_gap: config.on_gap,
        },
        ingester: ingester.clone(),
        work,
        work_slot,
        makes,
        ends: ends_slots,
    };
    let workers = egress.declare(ChildSpec::worker("egress", workers));
    let before_scan = SupervisorSpec::new(Strategy::RestForOne)
        .child(ChildSpec::worker("spill", egress::spill_factory(egress)))
        .child(ChildSpec::worker("dump", dump.factory(&dump_slot)).shutdown(Shutdown::After(DUMP_STOP)))
        .child(position.declare(ChildSpec::worker("redis", redis)))
        .child(workers)
        .child(
            ChildSpec::worker("ingester", following.factory(ingester_slot))
                .console(ingester.recipient())
                .durable(&mappings),
        )
        .child(ChildSpec::worker("accept", accepting));
    let all = companions.into_iter().fold(before_scan, SupervisorSpec::child);
    Ok(all
        .child(ChildSpec::supervisor("scan", scan.spec()))
        // The last one: nobody is started again for its sake.
        .child(redis::log_child(place)))
}

/// The parts of the actor Ingester.
struct Following {
    config: IngesterConfig,
    identity: Arc<Identity>,
    queues: StreamQueues,
    mappings: Durable<Mappings>,
    work: Mailbox<Work>,
    ends: Arc<[Outbox<MappingFinished>]>,
    commands: Outbox<RedisCommand>,
    dump: Dump,
    egress: Egress,
}

impl Following {
    fn factory(self, slot: MailboxSlot<Ingester>) -> Factory {
        Factory::actor(slot, move |cx: &StartCx| {
            let handles = Handles {
                streams: self.queues.clone(),
                mappings: self.mappings.clone(),
                work: self.work.recipient(),
                ends: self.ends.clone(),
                redis: self.commands.clone(),
                dump: self.dump.outbox().clone(),
                egress: self.egress.clone(),
                dump_path: self.config.dump_path.clone(),
                name: self.identity.name.clone(),
                tree: cx.tree.clone(),
                scan_path: sibling(cx.vitals.path(), "scan"),
            };
            Ok(Ingester::new(self.identity.clone(), handles, cx))
        })
    }
}

/// The parts of what begins anew with each mapping.
struct ScanBranch {
    place: Place,
    tools: Tools,
    ingester: Mailbox<Ingester>,
    work: Mailbox<Work>,
    work_slot: MailboxSlot<Work>,
    makes: Vec<(StreamConfig, MakeSource)>,
    ends: Vec<InboxSlot<MappingFinished>>,
}

impl ScanBranch {
    fn spec(self) -> SupervisorSpec {
        let Self { place, tools, ingester, work, work_slot, makes, ends } = self;
        let (_, assign_slot) = mailbox::<Assign>(1);
        let (streams, mappings, begun) = (tools.streams.clone(), tools.mappings.clone(), tools.begun.clone());
        let (queues, followed, assigned) = (streams.clone(), mappings.clone(), work.recipient());
        let assign = Factory::actor(assign_slot, move |cx| {
            let (place, assigned) = (place.clone(), assigned.clone());
            Ok(Assign::new(queues.clone(), followed.clone(), place, assigned, &cx.vitals))
        });
        let sending = Factory::actor(work_slot, move |cx| Ok(Work::new(tools.clone(), cx)));
        let mut tree = SupervisorSpec::new(Strategy::OneForAll)
            .child(scan_child("work", sending).durable(&begun))
            .child(scan_child("assign", assign));
        for (position, ((config, make), ends)) in makes.into_iter().zip(ends).enumerate() {
            let spec = StreamSpec {
                streams: streams.clone(),
                position,
                mappings: mappings.clone(),
                ends,
                work: work.recipient(),
                ingester: ingester.recipient(),
                make,
                place: config.place(),
                endpoint: config.endpoint(),
            };
            let child = scan_child(format!("stream_{position}"), spec.factory());
            tree = tree.child(child.label(config.name).placement(Placement::Dedicated));
        }
        tree
    }
}

/// A part of a scan: what is sent to one is not for the next.
fn scan_child(id: impl Into<String>, factory: Factory) -> ChildSpec {
    ChildSpec::worker(id, factory).on_restart(OnRestart::Purge).shutdown(Shutdown::After(STOP))
}

/// The streams of one ingester.
struct Streams {
    queues: StreamQueues,
    makes: Vec<(StreamConfig, MakeSource)>,
    /// The children that run beside their sources.
    companions: Vec<ChildSpec>,
}

fn streams(config: &IngesterConfig, registry: &Registry) -> Result<Streams, String> {
    let (mut queues, mut makes, mut companions) = (Vec::new(), Vec::new(), Vec::new());
    for (position, stream) in config.stream.iter().enumerate() {
        let place = stream.place();
        let supply = registry.supply(&stream.source, &place);
        let supply = supply.ok_or_else(|| format!("no such source: {}", stream.source))?;
        let Supply { make, companion } = supply.map_err(|error| error.to_string())?;
        let source = make(&place).map_err(|error| error.to_string())?;
        queues.push(StreamQueue::new(&stream.name, !source.can_wait()));
        makes.push((stream.clone(), make));
        let child = |factory| ChildSpec::worker(format!("source_{position}"), factory);
        companions.extend(
            companion.map(|one| child(one).label(stream.name.clone()).shutdown(Shutdown::After(STOP))),
        );
    }
    Ok(Streams { queues: queues.into(), makes, companions })
}

/// The path of a child of the same supervisor.
fn sibling(path: &str, id: &str) -> String {
    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
    format!("{above}/{id}")
}

/// What the build says of itself, as the original reads it: none if the file is missing; published only if it is whole.
fn build_meta(path: &Path) -> Option<BuildMeta> {
    let text = std::fs::read(path).ok()?;
    serde_json::from_slice(&text)
        .inspect_err(|error| tracing::warn!(?path, %error, "this is no build's metadata: passed over"))
        .ok()
}
