//! What one update makes an ingester do, step by step: parameters first, then the mapping, then the answer to `finished`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use orchestrator_supervise::{AskError, Fault, Origin, Outbox, Tree, Verb, reply, sanitize};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use crate::{
    edge::{
        dump::DumpCommand,
        egress::{Egress, PeerState},
    },
    messages::{RedisAction, RedisCommand, RedisFailure},
    parameters::Parameters,
    scan::Scan,
    updates::{ControllerUpdate, FORMER_MAX, Following},
};

/// How long a command to Redis may take.
const REDIS: Duration = Duration::from_secs(3);
/// How long a mapping waits for sources that would miss what is sent before they are connected. The controller gives up after
/// 10 s (CONTRACT IO06).
const SOURCES: Duration = Duration::from_secs(3);
/// How long an answer to `finished` waits for the dump file.
const DUMP: Duration = Duration::from_secs(2);
/// Tries to restart the scan.
const RESTARTS: u32 = 3;

/// What an ingester works with.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) scan: Arc<Scan>,
    pub(crate) redis: Outbox<RedisCommand>,
    pub(crate) dump: Outbox<DumpCommand>,
    pub(crate) egress: Egress,
    /// One file for all mappings.
    pub(crate) dump_path: Option<String>,
    /// The ingester's name, for files.
    pub(crate) name: Arc<str>,
    pub(crate) tree: Tree,
    /// Path of the group that is restarted at a new mapping.
    pub(crate) scan_path: String,
}

impl House {
    async fn redis(&self, action: RedisAction) -> Result<Option<Bytes>, RedisFailure> {
        let failure = |text: &str| Err(RedisFailure { text: text.to_owned(), refused: false });
        match self.redis.ask(|reply| RedisCommand { action, reply }, REDIS).await {
            Ok(outcome) => outcome,
            Err(AskError::Full(_)) => failure("too many commands wait for redis"),
            Err(_) => failure("redis did not answer in time"),
        }
    }

    /// The planned restart: the former mapping's work and assignments end, the new one's begin.
    async fn restart_scan(&self, mapping: Uuid) -> Result<(), Fault> {
        let origin = Origin { by: "ingester".to_owned(), reason: format!("mapping {mapping}") };
        let mut told = String::new();
        for _ in 0..RESTARTS {
            match self.tree.command(&self.scan_path, Verb::Restart, &origin).await {
                Ok(_) => return Ok(()),
                Err(error) => told = error.to_string(),
            }
        }
        Err(Fault::new(format!("the scan could not be restarted for mapping {mapping}: {told}")))
    }

    /// What is told of the streams beside the original's fields.
    pub(crate) fn figures(&self) -> Value {
        let nodes = self.tree.node(&self.scan_path).map(|node| node.children).unwrap_or_default();
        let mut streams = Map::new();
        for node in nodes {
            let Some(name) = node.label.filter(|_| node.id.starts_with("stream_")) else { continue };
            let figures = node.figures.into_iter().filter(|figure| figure.label.is_none());
            streams.insert(
                name,
                figures.map(|figure| (figure.name, json!(figure.value))).collect::<Map<_, _>>().into(),
            );
        }
        json!({ "streams": streams })
    }

    /// What is known of each worker that something is sent to, or that is connected.
    pub(crate) fn peers(&self) -> Vec<Value> {
        let mut peers = self.egress.peers();
        peers.sort_by(|a, b| a.worker.cmp(&b.worker));
        let told = |peer: PeerState| {
            json!({
                "worker": sanitize(&*peer.worker), "connected": peer.connected, "queued_bytes": peer.queued_bytes,
                "queued_messages": peer.queued_messages, "spilled_bytes": peer.spilled_bytes,
                "events": peer.events_out, "bytes": peer.bytes_out,
                "oldest_ms": peer.oldest_age.map(millis),
            })
        };
        peers.into_iter().map(told).collect()
    }
}

/// What an ingester knows of the controller.
#[derive(Clone)]
pub(crate) struct Ledger {
    following: Following,
    wanted: BTreeMap<String, Uuid>,
    pub(crate) parameters: Parameters,
    /// Mappings whose `finished` could not be answered yet.
    unanswered: Vec<Uuid>,
    begun: u64,
}

impl Ledger {
    /// After a restart of the actor: the scan knows the mapping.
    pub(crate) fn resumed(scan: &Scan) -> Self {
        Self {
            following: Following::resumed(scan.mapping().uuid, scan.former()),
            wanted: BTreeMap::new(),
            parameters: Parameters::default(),
            unanswered: Vec::new(),
            begun: 0,
        }
    }

    /// The mapping that everything is ready for.
    pub(crate) fn published_mapping(&self) -> Option<Uuid> {
        self.following.mapping()
    }

    /// Mappings begun by this incarnation.
    pub(crate) fn mappings_begun(&self) -> u64 {
        self.begun
    }

    /// Is there anything that Redis did not give or take yet?
    pub(crate) fn is_behind(&self) -> bool {
        !self.unanswered.is_empty() || !self.parameters.missing(&self.wanted).is_empty()
    }

    pub(crate) fn wants_the_same_as(&self, other: &Self) -> bool {
        self.wanted == other.wanted && self.following.mapping() == other.following.mapping()
    }

    /// Takes over what `other` was given and has given.
    pub(crate) fn adopt(&mut self, other: Self) {
        self.parameters = other.parameters;
        self.unanswered = other.unanswered;
    }

    /// Everything that one update asks for.
    pub(crate) async fn take(&mut self, update: &ControllerUpdate, house: &House) -> Result<(), Fault> {
        self.wanted.clone_from(&update.parameters_version);
        self.fetch(house).await;
        let names: Vec<&str> = house.scan.streams.iter().map(|stream| &*stream.name).collect();
        let turn = self.following.take(update, &names);
        if let Some((uuid, active)) = turn.begin {
            let active = active.iter().filter_map(|one| names.iter().position(|name| name == one)).collect();
            self.begin(uuid, active, house).await?;
        }
        if let Some(uuid) = turn.finish {
            self.finish(uuid, house).await;
        }
        Ok(())
    }

    /// Once more what could not be had or said.
    pub(crate) async fn caught_up(mut self, house: &House) -> Self {
        self.fetch(house).await;
        self.answer(house).await;
        self
    }

    async fn fetch(&mut self, house: &House) {
        self.parameters.keep_only(&self.wanted);
        let missing: Vec<_> = self
            .parameters
            .missing(&self.wanted)
            .into_iter()
            .map(|(name, uuid)| (name.to_owned(), uuid))
            .collect();
        for (name, uuid) in missing {
            match house.redis(RedisAction::Parameter(name.clone(), uuid)).await {
                Ok(Some(value)) => self.parameters.hold(&name, uuid, value),
                // It may come in a moment; the old one stays until then.
                Ok(None) => tracing::debug!(name, %uuid, "parameter is not there yet"),
                Err(RedisFailure { text: error, refused }) => {
                    tracing::warn!(name, %uuid, error, "parameter was not fetched");
                    // One whose key is of another type keeps none of the others away.
                    if !refused {
                        return;
                    }
                }
            }
        }
    }

    async fn begin(&mut self, uuid: Uuid, active: Vec<usize>, house: &House) -> Result<(), Fault> {
        let dump = house.dump_path.clone().or_else(|| {
            let prefix = self.parameters.dump_prefix()?;
            Some(format!("{prefix}{}-{uuid}.cbors", house.name))
        });
        tracing::info!(%uuid, streams = ?active, dump, "a mapping begins");
        house.scan.follow(uuid, active, dump);
        self.begun += 1;
        house.restart_scan(uuid).await?;
        if timeout(SOURCES, house.scan.ready()).await.is_err() {
            tracing::warn!(%uuid, "a source is not connected yet: frames that it sends before it is are missed");
        }
        Ok(())
    }

    async fn finish(&mut self, uuid: Uuid, house: &House) {
        if self.following.mapping() == Some(uuid) {
            house.scan.finish();
            let (closed, answer) = reply();
            // A dump that is behind does not hold up the scan; it goes on writing.
            if timeout(DUMP, house.dump.send(DumpCommand::Close(closed))).await.is_ok() {
                let _ = timeout(DUMP, answer).await;
            }
        }
        self.unanswered.push(uuid);
        self.answer(house).await;
    }

    async fn answer(&mut self, house: &House) {
        let mut still = Vec::new();
        let mut waiting = std::mem::take(&mut self.unanswered).into_iter();
        for uuid in waiting.by_ref() {
            let Err(RedisFailure { text: error, refused }) = house.redis(RedisAction::Finished(uuid)).await
            else {
                continue;
            };
            tracing::warn!(%uuid, error, "that the mapping is finished was not said: it is said again");
            still.push(uuid);
            // One whose key is of another type keeps none of the others back.
            if !refused {
                break;
            }
        }
        still.extend(waiting);
        // Nobody waits for the oldest of so many.
        still.drain(..still.len().saturating_sub(FORMER_MAX));
        self.unanswered = still;
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
