//! Explanation of one stencil, from the producer's status.

use orchestrator_subsystem::{Answered, Explain, Explained, Item, NextChance, Progress, wire::Cause};
use orchestrator_supervise::{ChildCx, Handle, Handled};
use orchestrator_text::sanitize;

use super::StencilProducer;
use crate::{queue::Queue, status::Status};

impl<Q: Queue + Unpin + 'static> Handle<Explain> for StencilProducer<Q> {
    fn handle(&mut self, verb: Explain, _: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Explain>> {
        Handled::now(Ok(explained(&verb.item, self.cx.vitals.path(), &self.current_status())))
    }
}

/// `path` is that of the producer's child.
fn explained(name: &str, path: &str, status: &Status) -> Explained {
    let Some((rootstock, scion)) = crossings(name) else { return Explained::default() };
    let tcn = rootstock.saturating_add(scion);
    let name = format!("({rootstock},{scion})");
    let named = |known: &str| crossings_of(known) == Some((rootstock, scion));
    let is_pushed = status.stencil.as_deref().is_some_and(named);
    let without = status.no_headroom.iter().find(|(stencil, _)| named(stencil));
    let (progress, text) = match (status.tcn, without) {
        (None, _) => (Progress::Waits, "the producer has not read yet which TCN is at work".to_owned()),
        (Some(_), Some((_, set))) => (Progress::Waits, format!("has no jobs: {} is empty", sanitize(set))),
        (Some(_), None) if is_pushed => {
            let of = status.total.map(|total| format!(" of {total}")).unwrap_or_default();
            let rate = status.jobs_per_sec;
            (Progress::Waits, format!("in progress: {}{of} jobs are pushed, {rate} a second", status.pushed))
        }
        (Some(at), None) if tcn > at => {
            (Progress::Waits, format!("not reached: the producer works on TCN {at}"))
        }
        (Some(at), None) if tcn < at => {
            (Progress::Ended, format!("its TCN {tcn} is complete, or it is pushed beside those of TCN {at}"))
        }
        (Some(at), None) => {
            let left = status.stencils_left;
            (
                Progress::Waits,
                format!("one of TCN {at}: complete, or one of the {left} stencils that are not started"),
            )
        }
    };
    let mut item = Item {
        since_ms: Some(status.since_ms),
        evidence: vec![format!("phase {}", status.phase)],
        ..Item::new("stencil", format!("producer/{name}"), path, progress, text)
    };
    if progress == Progress::Waits {
        item.next = Some(match status.left_secs.filter(|_| is_pushed) {
            Some(secs) => {
                NextChance::At { at_ms: orchestrator_observe::now_ms().saturating_add(secs * 1_000) }
            }
            None => NextChance::Unknown { reason: "once the producer reaches it".to_owned() },
        });
        // What stops the TCN is no reason of its own while the stencil is pushed.
        item.causes.extend(status.blocked_by.first().filter(|_| !is_pushed).map(|reason| {
            let text = format!("TCN {} is not complete: {}", status.tcn.unwrap_or(0), sanitize(reason));
            Cause {
                since_ms: Some(status.since_ms),
                evidence: status.blocked_by.iter().skip(1).map(sanitize).collect(),
                routine: true,
                ..Cause::new("tcn", path, text, "orchestrator producer status".to_owned())
            }
        }));
    }
    Explained { found: vec![item], ..Explained::default() }
}

/// Crossing numbers of rootstock and scion in `(j,k)`.
fn crossings(name: &str) -> Option<(i64, i64)> {
    let (rootstock, scion) = name.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    Some((rootstock.trim().parse().ok()?, scion.trim().parse().ok()?))
}

/// Crossing numbers in the name of a stencil as the status has it, `stencil ID (TCN 5 = 2 + 3)`.
fn crossings_of(stencil: &str) -> Option<(i64, i64)> {
    let (_, sum) = stencil.rsplit_once(" = ")?;
    let (rootstock, scion) = sum.strip_suffix(')')?.split_once(" + ")?;
    Some((rootstock.parse().ok()?, scion.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use orchestrator_producer_rules::{
        id::Id,
        stencil::{State, Stencil},
    };

    use serde_json::json;

    use super::*;

    fn status() -> Status {
        serde_json::from_value(json!({
            "phase": "pushing", "since_ms": 1_000, "tcn": 5, "stencil": "stencil 65f0 (TCN 5 = 2 + 3)",
            "pushed": 10, "total": 40, "jobs_per_sec": 3, "left_secs": 10, "stencils_left": 4,
            "no_headroom": { "stencil 65f1 (TCN 5 = 5 + 0)": "tangles with TCN 0" },
            "blocked_by": ["2 jobs of any type dead: requeue"],
        }))
        .expect("a status")
    }

    fn item(name: &str) -> Item {
        explained(name, "o/producer/stencil_producer", &status()).found.remove(0)
    }

    #[test]
    fn the_stencil_that_is_pushed_has_its_counts_and_its_end() {
        let found = item("(2, 3)");
        assert_eq!((found.name.as_str(), found.progress), ("producer/(2,3)", Progress::Waits));
        assert_eq!(found.text, "in progress: 10 of 40 jobs are pushed, 3 a second");
        assert!(matches!(found.next, Some(NextChance::At { .. })) && found.causes.is_empty(), "{found:?}");
    }

    #[test]
    fn other_stencils_tell_what_comes_before_them() {
        let later = item("(4,3)");
        assert_eq!(later.text, "not reached: the producer works on TCN 5");
        assert_eq!(later.causes[0].text, "TCN 5 is not complete: 2 jobs of any type dead: requeue");
        assert_eq!(item("(5,0)").text, "has no jobs: tangles with TCN 0 is empty");
        assert!(item("(1,4)").text.contains("one of the 4 stencils that are not started"));
        assert_eq!(item("(1,1)").progress, Progress::Ended);
        let starting = explained("(1,1)", "p", &Status::default());
        assert!(starting.found[0].text.starts_with("the producer has not read yet"), "{starting:?}");
        for name in ["2,3", "(2;3)", "(a,b)", "(2,3", "python3Packages.requests"] {
            assert_eq!(explained(name, "p", &status()), Explained::default(), "{name}");
        }
    }

    #[test]
    fn the_name_in_the_status_is_read() {
        let (id, state) = (Id([1; 12]), State::Complete);
        let stencil = Stencil { id, tcn: 12, rootstock_tcn: 7, scion_tcn: 5, state, cursor: None };
        assert_eq!(crossings_of(&stencil.to_string()), Some((7, 5)));
    }
}
