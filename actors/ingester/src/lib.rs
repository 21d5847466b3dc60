//! The ingester subsystem: takes frames from detectors and hands each to the workers that its event is assigned to.
//!
//! It takes the place of dranspose's Python ingesters: the same Redis keys, worker sockets, source protocols and dump files.
//! [`child_spec`] gives its tree; a protocol of your own is a [`source::Source`] in the [`source::Registry`] that
//! [`child_spec_with`] takes. `CONTRACT.md` beside this crate has its rules by number.
//!
//! Pure rules: [`updates`], [`parameters`], [`assignment`], [`alignment`], [`header`], [`roster`], [`presence`], [`protocol`],
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
pub mod messages;
pub mod parameters;
pub mod presence;
pub mod protocol;
pub mod roster;
pub mod scan;
pub mod source;
mod stream;
mod subsystem;
pub mod trouble;
pub mod updates;
mod work;
pub mod zmtp;

use std::{path::Path, sync::Arc, time::Duration};

use orchestrator_supervise::{
    ChildSpec, Factory, Limits, OnRestart, Placement, Shutdown, StartCx, Strategy, SupervisorSpec, inbox,
    mailbox,
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
    ingester::{House, Identity, Ingester},
    presence::BuildMeta,
    scan::Scan,
    source::{Registry, Supply},
    stream::StreamSpec,
    work::{Tools, Work},
};

/// Pings and looks that may wait for the actors.
const NOTICES: usize = 1_024;
/// Commands that may wait for Redis.
const COMMANDS: usize = 256;
/// Chunks of assignments that may wait.
const CHUNKS: usize = 64;
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
    let Streams { scan, specs: streams, companions } = streams(config, registry)?;
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
    let (_, accept_slot) = mailbox::<Accept>(1);
    let (pings, pings_slot) = inbox(NOTICES);
    let identity = Arc::new(Identity {
        name: name.clone(),
        url: config.url(),
        service_uuid,
        build: build_meta(&config.build_meta_file),
    });
    let redis =
        redis::factory(place.clone(), commands_slot, ingester.recipient(), Arc::new(Position::default()));
    let workers = egress::factory(config.address()?, egress.clone(), pings);
    let (shared, dump_path) = (scan.clone(), config.dump_path.clone());
    let (dump_outbox, sending) = (dump.outbox().clone(), egress.clone());
    let following = Factory::actor(ingester_slot, move |cx: &StartCx| {
        let house = House {
            scan: shared.clone(),
            redis: commands.clone(),
            dump: dump_outbox.clone(),
            egress: sending.clone(),
            dump_path: dump_path.clone(),
            name: name.clone(),
            tree: cx.tree.clone(),
            scan_path: sibling(cx.vitals.path(), "scan"),
        };
        Ok(Ingester::new(identity.clone(), house, cx))
    });
    let seen = ingester.recipient();
    let pings = pings_slot.clone();
    let accepting =
        Factory::actor(accept_slot, move |cx| Ok(Accept::new(pings.clone(), seen.clone(), &cx.vitals)))
            .with_inbox("pings", &pings_slot);
    let tools = Tools { scan, egress: egress.clone(), dump: dump.clone(), on_gap: config.on_gap };
    let before_scan = SupervisorSpec::new(Strategy::RestForOne)
        .child(ChildSpec::worker("spill", egress::spill_factory(egress)))
        .child(ChildSpec::worker("dump", dump.factory(&dump_slot)).shutdown(Shutdown::After(DUMP_STOP)))
        .child(ChildSpec::worker("redis", redis))
        .child(ChildSpec::worker("egress", workers))
        .child(ChildSpec::worker("ingester", following).console(ingester.recipient()))
        .child(ChildSpec::worker("accept", accepting));
    let all = companions.into_iter().fold(before_scan, SupervisorSpec::child);
    let log = redis::log_factory(place.clone());
    Ok(all
        .child(ChildSpec::supervisor("scan", scan_branch(place, tools, streams)))
        // The last one: nobody is started again for its sake.
        .child(ChildSpec::worker("log", log)))
}

/// What begins anew with each mapping.
fn scan_branch(place: Place, tools: Tools, streams: Vec<StreamSpec>) -> SupervisorSpec {
    let (assignments, slot) = inbox(CHUNKS);
    let (_, work_slot) = mailbox::<Work>(1);
    let (_, assign_slot) = mailbox::<Assign>(1);
    let scan = tools.scan.clone();
    let inbox = slot.clone();
    let work = Factory::actor(work_slot, move |cx| Ok(Work::new(tools.clone(), inbox.clone(), cx)));
    let assign = Factory::actor(assign_slot, move |cx| {
        Ok(Assign::new(scan.clone(), place.clone(), assignments.clone(), &cx.vitals))
    });
    let work = ChildSpec::worker("work", work.with_inbox("assignments", &slot));
    let mut tree = SupervisorSpec::new(Strategy::OneForAll)
        .child(work.on_restart(OnRestart::Purge).shutdown(Shutdown::After(STOP)))
        .child(ChildSpec::worker("assign", assign).shutdown(Shutdown::After(STOP)));
    for stream in streams {
        let id = format!("stream_{}", stream.position);
        let label = stream.scan.streams[stream.position].name.to_string();
        tree = tree.child(
            ChildSpec::worker(id, stream.factory())
                .label(label)
                .placement(Placement::Dedicated)
                .shutdown(Shutdown::After(STOP)),
        );
    }
    tree
}

/// The streams of one ingester.
struct Streams {
    /// What they share with the rest.
    scan: Arc<Scan>,
    specs: Vec<StreamSpec>,
    /// The children that run beside their sources.
    companions: Vec<ChildSpec>,
}

fn streams(config: &IngesterConfig, registry: &Registry) -> Result<Streams, String> {
    let (mut makes, mut companions) = (Vec::new(), Vec::new());
    for (position, stream) in config.stream.iter().enumerate() {
        let place = stream.place();
        let supply = registry.supply(&stream.source, &place);
        let supply = supply.ok_or_else(|| format!("no such source: {}", stream.source))?;
        let Supply { make, companion } = supply.map_err(|error| error.to_string())?;
        let source = make(&place).map_err(|error| error.to_string())?;
        makes.push((stream, make, !source.can_wait()));
        let child = |factory| ChildSpec::worker(format!("source_{position}"), factory);
        companions.extend(
            companion.map(|one| child(one).label(stream.name.clone()).shutdown(Shutdown::After(STOP))),
        );
    }
    let scan = Arc::new(Scan::new(makes.iter().map(|(stream, _, misses)| (stream.name.as_str(), *misses))));
    let spec = |(position, (stream, make, _)): (usize, (&StreamConfig, source::MakeSource, bool))| {
        StreamSpec { scan: scan.clone(), position, make, place: stream.place(), endpoint: stream.endpoint() }
    };
    let specs = makes.into_iter().enumerate().map(spec).collect();
    Ok(Streams { scan, specs, companions })
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
