//! What a rule does next, and what it waits for: in one place, so that nothing is due that nobody waits for.

use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use orchestrator_supervise::StopToken;
use tokio::time::Instant;

use super::{
    Agent, Call,
    order::Target,
    report::{Next, Report, Work},
};
use crate::{handling::Handler, rule::Ending, service::Service, status::Count};

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    /// What people and notices want.
    pub(super) fn obey(&mut self, call: Call, heard: &mut Call) {
        if call.looks != heard.looks {
            self.looks.wanted = true;
        }
        if call.orders != heard.orders {
            self.parked = None;
            self.reading.over();
            self.writing.over();
            self.looks.anew();
        }
        self.paused = call.paused;
        *heard = call;
    }

    /// Hands rows to handlers, and takes back what is ready at once: it can be settled together.
    pub(super) fn work(&mut self, working: &mut FuturesUnordered<Work>) {
        loop {
            self.start_handlers(working);
            let Some(Some((id, verdict, span))) = working.next().now_or_never() else { return };
            self.worked(id, verdict, span);
        }
    }

    /// Hands rows to handlers, as many as may be worked on.
    fn start_handlers(&mut self, working: &FuturesUnordered<Work>) {
        if self.grace_ends.is_some() {
            return;
        }
        while self.hand.working() < self.rule.concurrency {
            let Some((id, task)) = self.hand.start(&self.rule.name) else { return };
            if let Some(attempt) =
                task.attempt.filter(|attempt| self.rule.max_attempts.is_some_and(|max| *attempt > max))
            {
                // Somebody died over it each time.
                self.board.count(Count::Dead, 1);
                let text = format!("{} attempts were begun and none of them ended", attempt - 1);
                self.end(id, Ending::Dead, None, &text);
                continue;
            }
            let cancel = StopToken::new();
            self.cancels.insert(id, cancel.clone());
            let handler = self.handler.clone();
            let began = Instant::now();
            let work = async move {
                let verdict = tokio::select! {
                    biased;
                    () = cancel.cancelled() => None,
                    verdict = handler.handle(task) => Some(verdict),
                };
                (id, verdict, began.elapsed())
            };
            working.push(work.boxed_local());
        }
    }

    /// What is next.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        let mut waits = Vec::new();
        match self.writing.until(now) {
            Some(until) => waits.push(until),
            None => {
                if let Some(errand) = self.next_write(now) {
                    return Next::Errand(errand);
                }
            }
        }
        if self.stopped() {
            return Next::Finished;
        }
        if let Some(span) = self.rule.lease() {
            waits.extend(self.hand.next_renewal(span));
        }
        match self.reading.until(now) {
            Some(until) => waits.push(until),
            None => {
                if let Some(errand) = self.next_read(now, &mut waits) {
                    return Next::Errand(errand);
                }
            }
        }
        // What is due and cannot be done yet is waited for by what keeps it from being done.
        Next::Wait(waits.into_iter().filter(|until| *until > now).min())
    }

    /// Leases first, then endings; but after a write, a look that is wanted goes first.
    fn next_write(&mut self, now: Instant) -> Option<LocalBoxFuture<'static, Report>> {
        if let Some(renewal) = self.renew(now) {
            return Some(renewal);
        }
        if let Some(check) = self.check() {
            return Some(check);
        }
        let look = self.last_was_write && self.may_look(now) && self.reading.until(now).is_none();
        if !look && let Some(settlement) = self.settle() {
            self.last_was_write = true;
            return Some(settlement);
        }
        None
    }

    fn next_read(
        &mut self,
        now: Instant,
        waits: &mut Vec<Instant>,
    ) -> Option<LocalBoxFuture<'static, Report>> {
        waits.extend(self.next_orphan());
        if let Some(errand) = self.adopt(now) {
            return Some(errand);
        }
        if self.is_leaving() || self.paused {
            return None;
        }
        if let Some((_, until)) = &self.parked {
            if *until > now {
                waits.push(*until);
                return None;
            }
            self.looks.anew();
        }
        // Rows that were left alone can be claimed again.
        self.release(now);
        waits.extend(self.left_alone.next());
        if self.may_look(now) {
            self.last_was_write = false;
            return self.look(Target::Candidates, now);
        }
        if self.has_room()
            && let Some(due) = self.looks.others_due()
        {
            if due <= now {
                return self.look(Target::Others, now);
            }
            waits.push(due);
        }
        None
    }

    fn may_look(&self, now: Instant) -> bool {
        let parked = self.parked.as_ref().is_some_and(|(_, until)| *until > now);
        let ready = self.looks.wanted && self.has_room() && !self.left_alone.is_full();
        ready && !self.paused && !self.is_leaving() && !parked
    }

    fn release(&mut self, now: Instant) {
        if self.left_alone.release(now) {
            self.looks.anew();
        }
    }

    /// Rows are claimed when half of the hand is free: a claim for each row that was settled would cost a write each.
    fn has_room(&self) -> bool {
        let capacity = self.capacity();
        self.hand.len() * 2 <= capacity && self.hand.len() < capacity
    }

    /// Rows to be had in hand: the limit, but no more than handlers begin within a second. What waits here, others could work on.
    pub(super) fn capacity(&self) -> usize {
        let concurrency = self.rule.concurrency;
        let a_second = match self.handling {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small number, and bounded by the limit"
            )]
            Some(span) => (concurrency as f64 / span.as_secs_f64().max(1e-6)).min(1e6) as usize,
            None => 0,
        };
        a_second.max(concurrency * 2).min(self.rule.limit)
    }

    fn is_leaving(&self) -> bool {
        self.retired || self.grace_ends.is_some()
    }

    /// Is there nothing left to finish? What may have been claimed and is not known is left to its lease.
    fn stopped(&self) -> bool {
        self.is_leaving()
            && self.hand.is_empty()
            && (self.orphans.is_empty() || self.grace_ends.is_some_and(|ends| ends <= Instant::now()))
    }

    /// What has to be done in time, whatever the server is doing.
    pub(super) fn urgent(&self) -> Option<Instant> {
        let grace = self.grace_ends.filter(|_| !self.hand.unfinished(true).is_empty());
        [self.hand.next_expiry(), grace].into_iter().flatten().min()
    }

    /// It is time for something.
    pub(super) fn wake(&mut self, now: Instant) {
        for id in self.hand.expired(now) {
            self.lose(id);
        }
        if self.grace_ends.is_some_and(|ends| ends <= now) {
            self.give_back();
        }
        self.release(now);
    }

    /// The server answered, or did not.
    pub(super) fn heard(&mut self, report: Report) {
        match report {
            Report::Looked(looked) => self.looked(*looked),
            Report::Settled(settled) => self.settled(settled),
            Report::Renewed(settled, until) => self.renewed(settled, until),
            Report::Adopted(orphan, answer) => self.adopted(orphan, answer),
            Report::Checked(ids, answer) => self.checked(ids, answer),
        }
        if self.grace_ends.is_some() {
            // What was claimed by a look that was under way.
            for id in self.hand.unfinished(false) {
                self.end(id, Ending::Released, None, "");
            }
        }
    }

    /// Tells people how it is.
    pub(super) fn show(&self, asking: bool) {
        self.board.hand(self.hand.len(), self.hand.working(), self.left_alone.len());
        let now = Instant::now();
        let (phase, reason) = if self.grace_ends.is_some() {
            ("stopping", None)
        } else if let Some((reason, until)) = &self.parked
            && *until > now
        {
            ("parked", Some(reason.clone()))
        } else if let Some(reason) = self.writing.reason().or(self.reading.reason()) {
            ("waiting", Some(reason.to_owned()))
        } else if self.paused {
            ("paused", None)
        } else if self.hand.is_empty() && !asking {
            ("idle", None)
        } else {
            ("working", None)
        };
        self.board.phase(phase, reason);
    }
}
