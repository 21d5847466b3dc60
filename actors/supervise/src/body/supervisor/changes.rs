//! Additions and removals of children of a dynamic supervisor.

use std::task::{Context, Poll};

use orchestrator_observe::{EventKind, Exit};
use tokio::time::Instant;

use super::{Mode, SupervisorBody};
use crate::{
    ChildSpec, ChildrenError,
    body::entry::{ChangeReply, Entry},
    command::CommandRefusal,
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
                ChangeKind::Remove(id) => self.remove(&id, reply),
            }
        }
    }

    fn add(&mut self, child: Box<ChildSpec>, reply: ChangeReply) {
        let Some(dynamic) = &self.dynamic else { return };
        let refusal = match self.children.iter().find(|entry| entry.id() == child.id) {
            Some(entry) if entry.leaves => Some(ChildrenError::Leaving(child.id.clone())),
            Some(_) => Some(ChildrenError::Present(child.id.clone())),
            None if self.children.len() >= dynamic.max => Some(ChildrenError::Full(dynamic.max)),
            None => child.validate_dynamic(self.child.path()).err().map(ChildrenError::Invalid),
        };
        match refusal {
            Some(refusal) => drop(reply.send(Err(refusal))),
            None => self.insert(*child, reply),
        }
    }

    fn remove(&mut self, id: &str, reply: ChangeReply) {
        match self.begin_removal(id) {
            Ok(entry) => entry.removed = Some(reply),
            Err(refusal) => drop(reply.send(Err(refusal))),
        }
    }

    fn begin_removal(&mut self, id: &str) -> Result<&mut Entry, ChildrenError> {
        let index = self.children.iter().position(|entry| entry.id() == id);
        let index = index.ok_or_else(|| ChildrenError::Missing(id.to_owned()))?;
        self.answer(index, Err(CommandRefusal::Removed), |_| true);
        let entry = &mut self.children[index];
        if entry.leaves {
            return Err(ChildrenError::Leaving(id.to_owned()));
        }
        if let Some(added) = entry.added.take() {
            let _ = added.send(Err(ChildrenError::Removed(id.to_owned())));
        }
        entry.want_end();
        entry.leaves = true;
        Ok(entry)
    }

    /// Removes a new child that ended before it was up; returns whether `index` was one.
    pub(super) fn reject_failed_start(&mut self, index: usize, exit: &Exit) -> bool {
        let entry = &mut self.children[index];
        let Some(added) = entry.added.take() else { return false };
        let _ = added.send(Err(ChildrenError::DidNotStart { id: entry.id().to_owned(), exit: exit.clone() }));
        entry.leaves = true;
        true
    }

    pub(super) fn remove_ended(&mut self) {
        for entry in self.children.iter_mut().filter(|entry| entry.is_stuck()) {
            if let Some(removed) = entry.removed.take() {
                let _ = removed.send(Err(ChildrenError::Stuck(entry.id().to_owned())));
            }
        }
        while let Some(index) = self.children.iter().position(Entry::is_removable) {
            self.answer(index, Err(CommandRefusal::Removed), |_| true);
            // Dropping the entry ends the runner.
            let entry = self.children.remove(index);
            if let Some(dynamic) = &self.dynamic {
                dynamic.tree.remove_subtree(entry.child.path());
            }
            entry.child.event(EventKind::Removed);
            if let Some(removed) = entry.removed {
                let _ = removed.send(Ok(()));
            }
        }
    }

    /// Builds a child, which starts now or with its supervisor.
    fn insert(&mut self, child: ChildSpec, reply: ChangeReply) {
        let Some(dynamic) = &mut self.dynamic else { return };
        let mut entry = (dynamic.build)(dynamic.next, child);
        dynamic.next += 1;
        entry.child.event(EventKind::Added);
        if matches!(self.mode, Mode::Steady | Mode::Booting) {
            entry.want_start(Instant::now(), true);
            entry.added = Some(reply);
        } else {
            let _ = reply.send(Ok(()));
        }
        self.children.push(entry);
    }
}
