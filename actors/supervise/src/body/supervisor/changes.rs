//! Additions and removals of children of a dynamic supervisor.

use std::task::{Context, Poll};

use tokio::time::Instant;

use super::{Mode, SupervisorBody};
use crate::{
    ChildSpec, ChildrenError, Exit, SpecError, Start,
    body::entry::{ChangeReply, Entry, Removal},
    command::CommandRefusal,
    event::EventKind,
    spec::{Change, ChangeKind},
};

impl SupervisorBody {
    /// Carries out waiting changes, but none while the supervisor ends.
    pub(super) fn poll_changes(&mut self, cx: &mut Context<'_>) {
        while !matches!(self.mode, Mode::Stopping(_)) {
            let Some(dynamic) = &mut self.dynamic else { return };
            let Poll::Ready(Some(Change { kind, reply })) = dynamic.changes.poll_recv(cx) else { return };
            // The caller gave up.
            if reply.is_closed() {
                continue;
            }
            match kind {
                ChangeKind::Add(child) => self.add(child, reply),
                ChangeKind::Replace(child) => self.replace(child, reply),
                ChangeKind::Remove(id) => self.remove(&id, reply),
            }
        }
    }

    fn add(&mut self, child: Box<ChildSpec>, reply: ChangeReply) {
        let Some(dynamic) = &self.dynamic else { return };
        let refusal = match self.children.iter().find(|entry| entry.id() == child.id) {
            Some(entry) if entry.removal.is_some() => Some(ChildrenError::Leaving(child.id.clone())),
            Some(_) => Some(ChildrenError::Present(child.id.clone())),
            None if self.children.len() >= dynamic.max => Some(ChildrenError::Full(dynamic.max)),
            None => self.invalid(&child).map(ChildrenError::Invalid),
        };
        match refusal {
            Some(refusal) => drop(reply.send(Err(refusal))),
            None => self.insert(*child, false, reply),
        }
    }

    fn remove(&mut self, id: &str, reply: ChangeReply) {
        match self.begin_removal(id) {
            Ok(removal) => removal.reply = Some(reply),
            Err(refusal) => drop(reply.send(Err(refusal))),
        }
    }

    fn replace(&mut self, child: Box<ChildSpec>, reply: ChangeReply) {
        let refusal = self.invalid(&child).map(ChildrenError::Invalid);
        match refusal.map_or_else(|| self.begin_removal(&child.id), Err) {
            Ok(removal) => removal.replacement = Some((child, reply)),
            Err(refusal) => drop(reply.send(Err(refusal))),
        }
    }

    fn invalid(&self, child: &ChildSpec) -> Option<SpecError> {
        child.validate_dynamic(self.vitals.path()).err()
    }

    /// Begins the removal of a child.
    fn begin_removal(&mut self, id: &str) -> Result<&mut Removal, ChildrenError> {
        let index = self.children.iter().position(|entry| entry.id() == id);
        let index = index.ok_or_else(|| ChildrenError::Missing(id.to_owned()))?;
        self.answer(index, Err(CommandRefusal::Removed), |_| true);
        let entry = &mut self.children[index];
        if entry.removal.is_some() {
            return Err(ChildrenError::Leaving(id.to_owned()));
        }
        if let Some(added) = entry.added.take() {
            let _ = added.send(Err(ChildrenError::Removed(id.to_owned())));
        }
        entry.want_end();
        Ok(entry.removal.insert(Removal::default()))
    }

    /// Removes a new child that ended before it was up; returns whether `index` was one.
    pub(super) fn reject_failed_start(&mut self, index: usize, exit: &Exit) -> bool {
        let entry = &mut self.children[index];
        let Some(added) = entry.added.take() else { return false };
        let _ = added.send(Err(ChildrenError::DidNotStart { id: entry.id().to_owned(), exit: exit.clone() }));
        entry.removal = Some(Removal::default());
        true
    }

    /// Removes ended children from the tree and adds their replacements.
    pub(super) fn remove_ended(&mut self) {
        for entry in self.children.iter_mut().filter(|entry| entry.is_stuck()) {
            let id = entry.id().to_owned();
            let Some(removal) = &mut entry.removal else { continue };
            let replacement = removal.replacement.take().map(|(_, reply)| reply);
            for reply in [removal.reply.take(), replacement].into_iter().flatten() {
                let _ = reply.send(Err(ChildrenError::Stuck(id.clone())));
            }
        }
        while let Some(index) = self.children.iter().position(Entry::is_removable) {
            self.answer(index, Err(CommandRefusal::Removed), |_| true);
            // Dropping the entry ends the runner.
            let entry = self.children.remove(index);
            if let Some(dynamic) = &self.dynamic {
                dynamic.tree.remove_subtree(entry.vitals.path());
            }
            entry.vitals.event(EventKind::Removed);
            let Some(removal) = entry.removal else { continue };
            if let Some(reply) = removal.reply {
                let _ = reply.send(Ok(()));
            }
            if let Some((child, reply)) = removal.replacement {
                let paused = entry.vitals.is_paused_by_operator()
                    && child.pausable
                    && matches!(child.start, Start::Worker(_));
                self.insert(*child, paused, reply);
            }
        }
    }

    /// Builds a child, which starts now or with its supervisor.
    fn insert(&mut self, child: ChildSpec, paused: bool, reply: ChangeReply) {
        let Some(dynamic) = &mut self.dynamic else { return };
        let mut entry = (dynamic.build)(dynamic.next, child);
        dynamic.next += 1;
        entry.vitals.set_paused(paused);
        entry.vitals.event(EventKind::Added);
        if matches!(self.mode, Mode::Steady | Mode::Booting) {
            entry.want_start(Instant::now());
            entry.added = Some(reply);
        } else {
            let _ = reply.send(Ok(()));
        }
        self.children.push(entry);
    }
}
