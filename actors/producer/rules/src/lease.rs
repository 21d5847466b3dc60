//! Lease that lets one of several producers work while the others are on standby. Times are milliseconds.
//!
//! The configuration document has the lease, with times of the database's clock. Its epoch grows with each
//! holder and fences the writes of earlier holders (CONTRACT SD07 to SD09).

/// Lease in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Holder, unique to an incarnation.
    pub holder: String,
    /// Epoch, which grows with each holder.
    pub epoch: u64,
    /// End, by the database's clock, since 1970.
    pub until_ms: i64,
}

/// Decision about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Take it with this epoch, unless it has changed since it was read.
    Take {
        /// New epoch.
        epoch: u64,
    },
    /// Stay on standby.
    Wait {
        /// Time until the lease can end.
        ms: u64,
    },
}

/// Decides what `me` does about the lease `seen`, read at `now_ms` of the database's clock. A lease is taken,
/// with the next epoch, if it is free, expired, held by `me`, or by a process that `has_ended`. The owner
/// pushes while [`HeldLease::holds`].
pub fn claim(now_ms: i64, seen: Option<&Lease>, me: &str, has_ended: bool) -> Claim {
    match seen {
        None => Claim::Take { epoch: 1 },
        // The former holder may still have writes in flight; the new epoch fences them.
        Some(lease) if lease.holder == me || has_ended => {
            Claim::Take { epoch: lease.epoch.saturating_add(1) }
        }
        Some(lease) if lease.until_ms <= now_ms => Claim::Take { epoch: lease.epoch.saturating_add(1) },
        Some(lease) => Claim::Wait { ms: lease.until_ms.saturating_sub(now_ms).unsigned_abs() },
    }
}

/// Lease that this process holds, by the process's steady clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldLease {
    /// Epoch of the writes.
    pub epoch: u64,
    asked_ms: u64,
    ttl_ms: u64,
}

impl HeldLease {
    /// `asked_ms` is the time of the request, so the lease starts later.
    pub fn new(epoch: u64, asked_ms: u64, ttl_ms: u64) -> Self {
        Self { epoch, asked_ms, ttl_ms }
    }

    /// Duration from each renewal, in milliseconds.
    pub fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }

    /// Records a renewal that was requested at `asked_ms`.
    pub fn renewed(&mut self, asked_ms: u64) {
        self.asked_ms = asked_ms;
    }

    /// The renewal is due a third of the duration after the last one.
    pub fn due_in_ms(&self, now_ms: u64) -> u64 {
        (self.ttl_ms / 3).saturating_sub(now_ms.saturating_sub(self.asked_ms))
    }

    /// True once the renewal is due.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.due_in_ms(now_ms) == 0
    }

    /// Time for which the lease has certainly not ended. The queue cannot fence, so nothing is pushed after
    /// that.
    pub fn left_ms(&self, now_ms: u64) -> u64 {
        self.ttl_ms.saturating_sub(now_ms.saturating_sub(self.asked_ms))
    }

    /// Returns true while the lease has certainly not ended.
    pub fn holds(&self, now_ms: u64) -> bool {
        self.left_ms(now_ms) > 0
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
    fn a_lease_is_taken_if_free_ended_or_owned() {
        for (now, seen, decision) in [
            (0, None, Claim::Take { epoch: 1 }),
            (99, Some(lease("b", 7, 100)), Claim::Wait { ms: 1 }),
            (100, Some(lease("b", 7, 100)), Claim::Take { epoch: 8 }),
            (-5, Some(lease("b", 7, 0)), Claim::Wait { ms: 5 }),
            (0, Some(lease("a", 7, 100)), Claim::Take { epoch: 8 }),
            (0, Some(lease("b", 7, i64::MAX)), Claim::Wait { ms: i64::MAX as u64 }),
        ] {
            assert_eq!(claim(now, seen.as_ref(), "a", false), decision, "{now} {seen:?}");
        }
        let ended = claim(99, Some(&lease("b", 7, 100)), "a", true);
        assert_eq!(ended, Claim::Take { epoch: 8 }, "the end of its process ends a lease");
    }

    #[test]
    fn a_lease_is_renewed_in_time_and_not_used_after_its_end() {
        let mut held_lease = HeldLease::new(3, 1_000, 300);
        for (now, due, holds) in [
            (1_000, false, true),
            (1_099, false, true),
            (1_100, true, true),
            (1_299, true, true),
            (1_300, true, false),
        ] {
            assert_eq!((held_lease.is_due(now), held_lease.holds(now)), (due, holds), "{now}");
        }
        assert_eq!(
            [held_lease.due_in_ms(1_000), held_lease.due_in_ms(1_099), held_lease.due_in_ms(9_999)],
            [100, 1, 0]
        );
        assert_eq!(held_lease.ttl_ms(), 300);
        held_lease.renewed(1_250);
        assert_eq!(
            (held_lease.is_due(1_300), held_lease.holds(1_549), held_lease.holds(1_550)),
            (false, true, false)
        );
    }

    proptest! {
        /// Flaw 11: with any clock offsets and delays, no two producers hold the lease, and epochs only grow.
        #[test]
        fn flaw_11_no_two_producers_hold_the_lease(
            steps in prop::collection::vec((0_usize..3, 0_u64..400, 0_u64..100), 1..200), off in prop::array::uniform3(0_u64..10_000),
        ) {
            const TTL: u64 = 300;
            let (mut store, mut now) = (None::<Lease>, 0_u64);
            let mut held: [Option<HeldLease>; 3] = [None; 3];
            for (who, passed, delay) in steps {
                now += passed;
                let own = |time: u64| time + off[who];
                let asked = own(now);
                // The database answers later than it was asked.
                now += delay;
                let me = format!("p{who}");
                let end = (now + TTL) as i64;
                match held[who].as_mut() {
                    Some(held_lease) => match store.as_mut().filter(|lease| lease.epoch == held_lease.epoch) {
                        Some(lease) => {
                            lease.until_ms = end;
                            held_lease.renewed(asked);
                        }
                        None => held[who] = None,
                    },
                    None => {
                        if let Claim::Take { epoch } = claim(now as i64, store.as_ref(), &me, false) {
                            prop_assert!(store.as_ref().is_none_or(|old| old.epoch < epoch));
                            store = Some(lease(&me, epoch, end));
                            held[who] = Some(HeldLease::new(epoch, asked, TTL));
                        }
                    }
                }
                let holders = (0..3).filter(|who| held[*who].is_some_and(|held_lease| held_lease.holds(now + off[*who])));
                prop_assert!(holders.count() <= 1);
            }
        }
    }
}
