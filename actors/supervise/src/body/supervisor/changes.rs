//! Children of a dynamic supervisor that come and go.

use std::task::{Context, Poll};

use tokio::time::Instant;

use super::{Mode, SupervisorBody};
use crate::{
    ChildSpec, ChildrenError, Exit, SpecError, Start,
    body::entry::{Answer, Departure, Entry},
    command::OrderError,
    event::EventKind,
    spec::{Change, Edit},
};

impl SupervisorBody {
    /// Takes the changes that wait, but none while the supervisor ends.
    pub(super) fn poll_changes(&mut self, cx: &mut Context<'_>) {
        while !matches!(self.mode, Mode::Ending(_)) {
            let Some(dynamic) = &mut self.dynamic else { return };
            let Poll::Ready(Some(Change { what, reply })) = dynamic.changes.poll_recv(cx) else { return };
            // Nobody waits for it any more.
            if reply.is_closed() {
                continue;
            }
            match what {
                Edit::Add(child) => self.add(child, reply),
                Edit::Replace(child) => self.replace(child, reply),
                Edit::Remove(id) => self.remove(&id, reply),
            }
        }
    }

    fn add(&mut self, child: Box<ChildSpec>, reply: Answer) {
        let Some(dynamic) = &self.dynamic else { return };
        let refusal = match self.children.iter().find(|entry| entry.id() == child.id) {
            Some(entry) if entry.departure.is_some() => Some(ChildrenError::Leaving(child.id.clone())),
            Some(_) => Some(ChildrenError::Present(child.id.clone())),
            None if self.children.len() >= dynamic.max => Some(ChildrenError::Full(dynamic.max)),
            None => self.invalid(&child).map(ChildrenError::Invalid),
        };
        match refusal {
            Some(refusal) => drop(reply.send(Err(refusal))),
            None => self.declare(*child, false, reply),
        }
    }

    fn remove(&mut self, id: &str, reply: Answer) {
        match self.dismiss(id) {
            Ok(departure) => departure.asked = Some(reply),
            Err(refusal) => drop(reply.send(Err(refusal))),
        }
    }

    fn replace(&mut self, child: Box<ChildSpec>, reply: Answer) {
        let refusal = self.invalid(&child).map(ChildrenError::Invalid);
        match refusal.map_or_else(|| self.dismiss(&child.id), Err) {
            Ok(departure) => departure.successor = Some((child, reply)),
            Err(refusal) => drop(reply.send(Err(refusal))),
        }
    }

    fn invalid(&self, child: &ChildSpec) -> Option<SpecError> {
        child.validate_dynamic(self.vitals.path()).err()
    }

    /// Begins the end of a child.
    fn dismiss(&mut self, id: &str) -> Result<&mut Departure, ChildrenError> {
        let index = self.children.iter().position(|entry| entry.id() == id);
        let index = index.ok_or_else(|| ChildrenError::Missing(id.to_owned()))?;
        self.answer(index, Err(OrderError::Removed), |_| true);
        let entry = &mut self.children[index];
        if entry.departure.is_some() {
            return Err(ChildrenError::Leaving(id.to_owned()));
        }
        if let Some(arrival) = entry.arrival.take() {
            let _ = arrival.send(Err(ChildrenError::Removed(id.to_owned())));
        }
        entry.want_end();
        Ok(entry.departure.insert(Departure::default()))
    }

    /// Discards a new child that ended before it was up; true if it was one.
    pub(super) fn refuse_arrival(&mut self, index: usize, exit: &Exit) -> bool {
        let entry = &mut self.children[index];
        let Some(arrival) = entry.arrival.take() else { return false };
        let _ =
            arrival.send(Err(ChildrenError::DidNotStart { id: entry.id().to_owned(), exit: exit.clone() }));
        entry.departure = Some(Departure::default());
        true
    }

    /// Takes those out of the tree that leave and have ended; successors come in their place.
    pub(super) fn see_off(&mut self) {
        for entry in self.children.iter_mut().filter(|entry| entry.is_left_behind()) {
            let id = entry.id().to_owned();
            let Some(departure) = &mut entry.departure else { continue };
            let successor = departure.successor.take().map(|(_, reply)| reply);
            for reply in [departure.asked.take(), successor].into_iter().flatten() {
                let _ = reply.send(Err(ChildrenError::Stuck(id.clone())));
            }
        }
        while let Some(index) = self.children.iter().position(Entry::has_left) {
            self.answer(index, Err(OrderError::Removed), |_| true);
            // Its runner ends when the entry is dropped.
            let entry = self.children.remove(index);
            if let Some(dynamic) = &self.dynamic {
                dynamic.tree.disown(entry.vitals.path());
            }
            entry.vitals.event(EventKind::Removed);
            let Some(departure) = entry.departure else { continue };
            if let Some(reply) = departure.asked {
                let _ = reply.send(Ok(()));
            }
            if let Some((child, reply)) = departure.successor {
                let paused =
                    entry.vitals.is_held() && child.pausable && matches!(child.start, Start::Worker(_));
                self.declare(*child, paused, reply);
            }
        }
    }

    /// Builds a child; it starts now, or with its supervisor.
    fn declare(&mut self, child: ChildSpec, paused: bool, reply: Answer) {
        let Some(dynamic) = &mut self.dynamic else { return };
        let mut entry = (dynamic.build)(dynamic.next, child);
        dynamic.next += 1;
        entry.vitals.set_paused(paused);
        entry.vitals.event(EventKind::Added);
        if matches!(self.mode, Mode::Steady | Mode::Booting) {
            entry.want_start(Instant::now());
            entry.arrival = Some(reply);
        } else {
            let _ = reply.send(Ok(()));
        }
        self.children.push(entry);
    }
}
