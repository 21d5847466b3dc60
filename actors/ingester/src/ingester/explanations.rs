//! Answers to `orchestrator why` about a mapping or an event. Work is asked only about the current mapping.

use std::time::Duration;

use orchestrator_observe::{NodeSnapshot, now_ms, without_root};
use orchestrator_subsystem::{Answered, Explain, Explained, Item, item};
use orchestrator_supervise::{ChildCx, ChildSpec, Handle, Handled};
use orchestrator_text::sanitize_to;

use super::{Ingester, stage::Stage};
use crate::{
    explain::{Counts, EndedMapping, Question, Snapshot, StreamState},
    mapping::Mapping,
    messages::LocateEvent,
    work::SenderState,
};

/// Longest wait for Work, whose bursts are short. A console answers within two seconds.
const WORK_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest reason of an interruption, bytes.
const REASON_BYTES: usize = 256;

impl Handle<Explain> for Ingester {
    fn handle(
        &mut self,
        Explain { item }: Explain,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, Answered<Explain>> {
        let id = ChildSpec::id_of(&self.identity.name);
        let Some(question) = Question::parse(&item, [&id, &self.identity.name]) else {
            return Handled::now(Ok(Explained::default()));
        };
        if !self.handles.mapping().is_some_and(|uuid| question.matches(uuid)) {
            return Handled::now(Ok(self.explained(&question, None)));
        }
        let (reply, answer) = Handled::later();
        let (work, event) = (self.handles.locate.clone(), question.event);
        let asking = async move { work.ask(LocateEvent(event), WORK_TIMEOUT).await.ok().flatten() };
        cx.spawn(asking, move |ingester, sender, _| {
            // An operator that no longer waits has closed it.
            let _ = reply.send(Ok(ingester.explained(&question, sender)));
        });
        answer
    }
}

impl Ingester {
    /// Adds the current mapping to the ended ones.
    pub(super) fn record_ended(&self) {
        let mapping = self.handles.mappings.lock().current.clone();
        if mapping.uuid.is_none() || self.handles.history.lock().of(&mapping).is_some() {
            return;
        }
        let (scan, peers) = (self.tree.node(self.handles.scan.path()), self.handles.egress.peers());
        let job = self.handles.finished_mapping().filter(|ended| ended.is_whole && mapping.finished);
        let job = self.handles.on_finished.as_ref().zip(job);
        let job =
            job.map(|(jobs, mapping)| jobs.job(&self.identity.name, &mapping).job.attr_path().to_owned());
        let history = self.handles.history.get();
        let ended = EndedMapping {
            began_ms: history.began_ms,
            ended_ms: now_ms(),
            counts: self.counts().since(&history.before),
            interrupted: self.interruption(&mapping, scan.as_ref(), history.began_ms),
            job,
            last_event: peers.iter().filter_map(|peer| peer.progress.queued).max(),
            waiting: peers.iter().map(|peer| peer.queued_messages).sum(),
            mapping,
        };
        self.handles.history.update(|history| history.add(ended));
    }

    /// Counts since the start of the process.
    pub(super) fn counts(&self) -> Counts {
        Counts::read(self.tree.node(self.handles.scan.path()).as_ref(), self.handles.sent.get())
    }

    fn explained(&self, question: &Question, sender: Option<SenderState>) -> Explained {
        let current = self.handles.mappings.lock().current.clone();
        let history = self.handles.history.get();
        let ingester = ChildSpec::id_of(&self.identity.name);
        let scan = without_root(self.handles.scan.path());
        let branch = scan.rsplit_once('/').map_or(scan, |(branch, _)| branch).to_owned();
        let ended = history.ended.iter().filter(|ended| {
            ended.mapping.uuid.is_some_and(|uuid| question.matches(uuid))
                && ended.mapping.uuid != current.uuid
        });
        let of_ended = |ended: &EndedMapping| match question.event {
            None => ended.mapping_item(&ingester, &branch),
            Some(event) => ended.event_item(event, &ingester, &branch),
        };
        let mut found: Vec<Item> = ended.rev().map(of_ended).collect();
        if current.uuid.is_some_and(|uuid| question.matches(uuid)) {
            let item = match (history.of(&current), question.event) {
                (Some(ended), None) => ended.mapping_item(&ingester, &branch),
                (_, None) => self.snapshot(current.clone(), branch, sender, None).mapping_item(),
                (_, Some(event)) => {
                    self.snapshot(current.clone(), branch, sender, Some(event)).event_item(event)
                }
            };
            found.insert(0, item);
        }
        found.truncate(item::ITEMS_MAX);
        if !found.is_empty() {
            return Explained { found, ..Explained::default() };
        }
        let known = history.ended.iter().map(|ended| &ended.mapping).chain([&current]);
        let mut known: Vec<_> = known.filter_map(|mapping| Some(mapping.uuid?.to_string())).collect();
        known.dedup();
        let near = item::nearest(&question.uuid(), known.iter().map(String::as_str));
        Explained {
            found,
            nearest: near.into_iter().map(|uuid| format!("{ingester}/{uuid}")).collect(),
            searched: format!(
                "{} mappings of ingester {ingester}: the last ones since the start of the process",
                known.len()
            ),
        }
    }

    fn snapshot(
        &self,
        mapping: Mapping,
        branch: String,
        sender: Option<SenderState>,
        event: Option<u64>,
    ) -> Snapshot {
        let scan = self.tree.node(self.handles.scan.path());
        let history = self.handles.history.get();
        let peers = self.handles.egress.peers();
        let streams = scan.iter().flat_map(|scan| &scan.children).filter(|child| child.label.is_some());
        Snapshot {
            ingester: ChildSpec::id_of(&self.identity.name),
            branch,
            now_ms: now_ms(),
            redis_cli: self.handles.redis_cli.clone(),
            began_ms: history.began_ms,
            counts: self.counts().since(&history.before),
            streams: streams.map(StreamState::of).collect(),
            awaited: match &self.stage {
                Stage::Starting(starting) => Some(starting.awaited.iter().copied().collect()),
                _ => None,
            },
            interrupted: self.interruption(&mapping, scan.as_ref(), history.began_ms),
            last_entry: self.handles.last_entry.get(),
            held_up: self.handles.egress.held_up(&peers),
            places: event.map(|event| self.handles.egress.locate(event)).unwrap_or_default(),
            peers,
            sender: sender.filter(|sender| sender.mapping == mapping.number),
            mapping,
        }
    }

    /// Reason why the scan of `mapping` was interrupted: the last failure of one of its children.
    fn interruption(&self, mapping: &Mapping, scan: Option<&NodeSnapshot>, began_ms: u64) -> Option<String> {
        if self.handles.interrupted.get() != mapping.number {
            return None;
        }
        let failed = scan.into_iter().flat_map(|scan| &scan.children).filter_map(|child| {
            let exit = child.last_exit.as_ref().filter(|exit| exit.at_ms >= began_ms)?;
            let is_failure = ["failed", "panicked", "killed"].contains(&&*exit.kind);
            is_failure.then(|| (exit.at_ms, format!("{} ended: {}", child.id, exit.reason)))
        });
        let reason = failed.max().map_or("its children were restarted".to_owned(), |(_, reason)| reason);
        Some(sanitize_to(reason, REASON_BYTES))
    }
}
