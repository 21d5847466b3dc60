//! Answers to `orchestrator why` about a mapping or an event. Work is asked only about the current mapping.

use std::{collections::BTreeSet, time::Duration};

use orchestrator_observe::{NodeSnapshot, now_ms};
use orchestrator_subsystem::{Answered, Explain, Explained, item};
use orchestrator_supervise::{ChildCx, ChildSpec, Handle, Handled};
use orchestrator_text::sanitize_to;
use uuid::Uuid;

use super::{Ingester, stage::Stage};
use crate::{
    explain::{Counts, Names, Question, Record, Snapshot, StreamState},
    messages::LocateEvent,
    sender_state::SenderState,
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
        let record = self.record(self.scan().as_ref());
        if record.mapping.uuid.is_some() {
            self.handles.history.update(|history| history.add(record));
        }
    }

    /// Counts since the start of the process.
    pub(super) fn counts(&self, scan: Option<&NodeSnapshot>) -> Counts {
        Counts::read(scan, self.handles.sent.get())
    }

    pub(super) fn scan(&self) -> Option<NodeSnapshot> {
        self.tree.node(self.handles.scan.path())
    }

    /// The current mapping, as it would end now.
    fn record(&self, scan: Option<&NodeSnapshot>) -> Record {
        let handles = &self.handles;
        let (mapping, peers) = (handles.mappings.lock().current.clone(), handles.egress.peers());
        let ended = handles.finished_mapping().filter(|ended| ended.is_whole && mapping.finished);
        let job = handles.on_finished.as_ref().zip(ended);
        let (began_ms, counts) = {
            let history = handles.history.lock();
            (history.began_ms, self.counts(scan).since(&history.before))
        };
        let is_interrupted = mapping.uuid.is_some() && handles.interrupted.get() == mapping.number;
        Record {
            mapping,
            began_ms,
            at_ms: now_ms(),
            counts,
            interrupted: is_interrupted.then(|| reason(scan, began_ms)),
            job: job.map(|(job, ended)| job.job(&self.identity.name, &ended).job.attr_path().to_owned()),
            last_event: peers.iter().filter_map(|peer| peer.progress.queued).max(),
            waiting: peers.iter().map(|peer| peer.queued_messages).sum(),
        }
    }

    fn explained(&self, question: &Question, sender: Option<SenderState>) -> Explained {
        let scan = self.handles.scan.path();
        let names = Names {
            ingester: ChildSpec::id_of(&self.identity.name),
            branch: scan.rsplit_once('/').map_or(scan, |(branch, _)| branch).to_owned(),
            redis_cli: self.handles.redis_cli.clone(),
        };
        let (current, event) = (self.handles.mapping(), question.event);
        let last = self.handles.history.lock().ended.back().and_then(|record| record.mapping.uuid);
        // Once the current mapping is recorded, only its events may still move.
        let is_live = |uuid: &Uuid| question.matches(*uuid) && (event.is_some() || last != Some(*uuid));
        let found = current.filter(is_live).map(|_| {
            let snapshot = self.snapshot(names.clone(), sender, event);
            match event {
                None => snapshot.mapping_item(),
                Some(event) => snapshot.event_item(event),
            }
        });
        let history = self.handles.history.lock();
        let former =
            || history.ended.iter().rev().filter(|record| event.is_none() || record.mapping.uuid != current);
        let matching =
            former().filter(|record| record.mapping.uuid.is_some_and(|uuid| question.matches(uuid)));
        let matching = matching.map(|record| match event {
            None => record.mapping_item(&names),
            Some(event) => record.event_item(&names, event),
        });
        let found: Vec<_> = found.into_iter().chain(matching).take(item::ITEMS_MAX).collect();
        if !found.is_empty() {
            return Explained { found, ..Explained::default() };
        }
        let known = former().filter_map(|record| record.mapping.uuid).chain(current);
        let known: BTreeSet<_> = known.map(|uuid| uuid.to_string()).collect();
        let Names { ingester, .. } = names;
        let nearest = item::nearest(&question.uuid(), known.iter().map(String::as_str));
        let nearest = nearest.into_iter().map(|uuid| format!("{ingester}/{uuid}")).collect();
        let searched = format!(
            "the last mappings of ingester {ingester} since the start of the process: {}",
            known.len()
        );
        Explained { found, nearest, searched }
    }

    fn snapshot(&self, names: Names, sender: Option<SenderState>, event: Option<u64>) -> Snapshot {
        let (scan, egress) = (self.scan(), &self.handles.egress);
        let (record, peers) = (self.record(scan.as_ref()), egress.peers());
        let streams = scan.iter().flat_map(|scan| &scan.children).filter(|child| child.label.is_some());
        Snapshot {
            names,
            streams: streams.map(StreamState::of).collect(),
            awaited: match &self.stage {
                Stage::Starting(starting) => Some(starting.awaited.iter().copied().collect()),
                _ => None,
            },
            last_entry: self.handles.last_entry.get(),
            held_up: egress.held_up(&peers),
            peers,
            sender: sender.filter(|sender| sender.mapping == record.mapping.number),
            places: event.map(|event| egress.locate(event)).unwrap_or_default(),
            record,
        }
    }
}

/// Reason why a scan was interrupted: the last failure of one of its children.
fn reason(scan: Option<&NodeSnapshot>, began_ms: u64) -> String {
    let failed = scan.into_iter().flat_map(|scan| &scan.children).filter_map(|child| {
        let exit = child.last_exit.as_ref().filter(|exit| exit.at_ms >= began_ms)?;
        let is_failure = ["failed", "panicked", "killed"].contains(&&*exit.kind);
        is_failure.then(|| (exit.at_ms, format!("{} ended: {}", child.id, exit.reason)))
    });
    let reason = failed.max().map_or("its children were restarted".to_owned(), |(_, reason)| reason);
    sanitize_to(reason, REASON_BYTES)
}
