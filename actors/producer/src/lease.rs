//! The lease: of several producers one works, the others stand by. Plain rules; times are milliseconds.
//!
//! The lease lies in the configuration document. Its times are by the database's clock, so that the producers' own need not
//! agree. Its epoch grows with each holder and fences: what a former holder still writes is refused by the document's epoch.

/// A lease as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Who has it: unique to a process's life.
    pub holder: String,
    /// Grows each time that it is taken.
    pub epoch: u64,
    /// When it ends, by the database's clock, since 1970.
    pub until_ms: i64,
}

/// What to do about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Take it with this epoch, if it still is as it was seen.
    Take {
        /// The epoch to take it with.
        epoch: u64,
    },
    /// Stand by; it cannot end before.
    Wait {
        /// How long.
        ms: u64,
    },
}

/// What `me` does about the lease that was `seen` at `now_ms`, by the database's clock.
pub fn claim(now_ms: i64, seen: Option<&Lease>, me: &str) -> Claim {
    match seen {
        None => Claim::Take { epoch: 1 },
        // A new incarnation of the same process: what the former one still has under way is fenced off.
        Some(lease) if lease.holder == me => Claim::Take { epoch: lease.epoch.saturating_add(1) },
        Some(lease) if lease.until_ms <= now_ms => Claim::Take { epoch: lease.epoch.saturating_add(1) },
        Some(lease) => Claim::Wait { ms: lease.until_ms.saturating_sub(now_ms).unsigned_abs() },
    }
}

/// A lease in hand, by one's own steady clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tenure {
    /// The epoch to write with.
    pub epoch: u64,
    asked_ms: u64,
    ttl_ms: u64,
}

impl Tenure {
    /// A lease for `ttl_ms` that was asked for at `asked_ms`: it cannot have begun before.
    pub fn new(epoch: u64, asked_ms: u64, ttl_ms: u64) -> Self {
        Self { epoch, asked_ms, ttl_ms }
    }

    /// How long it lasts.
    pub fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }

    /// It was renewed; the renewal was asked for at `asked_ms`.
    pub fn renewed(&mut self, asked_ms: u64) {
        self.asked_ms = asked_ms;
    }

    /// Time until it is to be renewed: a third of its length, so that a renewal may fail.
    pub fn due_in_ms(&self, now_ms: u64) -> u64 {
        (self.ttl_ms / 3).saturating_sub(now_ms.saturating_sub(self.asked_ms))
    }

    /// Is it time to renew it?
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.due_in_ms(now_ms) == 0
    }

    /// May jobs be pushed? Documents are fenced, but the queue is not: so nothing is sent once the lease may have ended.
    pub fn holds(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.asked_ms) < self.ttl_ms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lease(holder: &str, epoch: u64, until_ms: i64) -> Lease {
        Lease { holder: holder.to_owned(), epoch, until_ms }
    }

    #[test]
    fn a_lease_is_taken_when_it_is_free_ended_or_ones_own() {
        for (now, seen, decision) in [
            (0, None, Claim::Take { epoch: 1 }),
            (99, Some(lease("b", 7, 100)), Claim::Wait { ms: 1 }),
            (100, Some(lease("b", 7, 100)), Claim::Take { epoch: 8 }),
            (-5, Some(lease("b", 7, 0)), Claim::Wait { ms: 5 }),
            (0, Some(lease("a", 7, 100)), Claim::Take { epoch: 8 }),
            (0, Some(lease("b", 7, i64::MAX)), Claim::Wait { ms: i64::MAX as u64 }),
        ] {
            assert_eq!(claim(now, seen.as_ref(), "a"), decision, "{now} {seen:?}");
        }
    }

    #[test]
    fn it_is_renewed_in_time_and_not_used_beyond_its_end() {
        let mut tenure = Tenure::new(3, 1_000, 300);
        for (now, due, holds) in [
            (1_000, false, true),
            (1_099, false, true),
            (1_100, true, true),
            (1_299, true, true),
            (1_300, true, false),
        ] {
            assert_eq!((tenure.is_due(now), tenure.holds(now)), (due, holds), "{now}");
        }
        assert_eq!([tenure.due_in_ms(1_000), tenure.due_in_ms(1_099), tenure.due_in_ms(9_999)], [100, 1, 0]);
        assert_eq!(tenure.ttl_ms(), 300);
        tenure.renewed(1_250);
        assert_eq!((tenure.is_due(1_300), tenure.holds(1_549), tenure.holds(1_550)), (false, true, false));
    }

    proptest! {
        /// Flaw 11: any number of producers, clocks that are off, renewals that are late: never two that may push at once, and
        /// epochs that only grow.
        #[test]
        fn flaw_11_two_never_hold_it_at_once(
            steps in prop::collection::vec((0_usize..3, 0_u64..400, 0_u64..100), 1..200), off in prop::array::uniform3(0_u64..10_000),
        ) {
            const TTL: u64 = 300;
            let (mut store, mut now) = (None::<Lease>, 0_u64);
            let mut hands: [Option<Tenure>; 3] = [None; 3];
            for (who, passed, delay) in steps {
                now += passed;
                let own = |time: u64| time + off[who];
                let asked = own(now);
                // The answer, and with it the database's time, comes later than it was asked for.
                now += delay;
                let me = format!("p{who}");
                let end = (now + TTL) as i64;
                match hands[who].as_mut() {
                    Some(tenure) => match store.as_mut().filter(|lease| lease.epoch == tenure.epoch) {
                        Some(lease) => {
                            lease.until_ms = end;
                            tenure.renewed(asked);
                        }
                        None => hands[who] = None,
                    },
                    None => {
                        if let Claim::Take { epoch } = claim(now as i64, store.as_ref(), &me) {
                            prop_assert!(store.as_ref().is_none_or(|old| old.epoch < epoch));
                            store = Some(lease(&me, epoch, end));
                            hands[who] = Some(Tenure::new(epoch, asked, TTL));
                        }
                    }
                }
                let holders = (0..3).filter(|who| hands[*who].is_some_and(|tenure| tenure.holds(now + off[*who])));
                prop_assert!(holders.count() <= 1);
            }
        }
    }
}
