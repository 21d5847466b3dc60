//! Each branch of the original's rules, and each of its flaws that is one of rules.

use std::collections::BTreeMap;

use super::*;
use crate::{
    advance::Halt,
    id::Id,
    reading::Reading,
    stencil::{Ledger, Set},
};

fn stencil(number: u8, tcn: i64, rootstock_tcn: i64) -> Stencil {
    let scion_tcn = tcn - rootstock_tcn;
    Stencil { id: Id([number; 12]), tcn, rootstock_tcn, scion_tcn, state: State::New, cursor: None }
}

fn marked(stencil: &Stencil, state: State) -> Action {
    Action::Mark(Mark { id: stencil.id, state, cursor: None })
}

fn ledger(completed_tcn: i64) -> Event {
    Event::Ledger(Ledger { completed_tcn, max_tcn: 4 })
}

fn idle() -> Event {
    Event::Read(Reading::default())
}

/// A machine that has read TCN 3 as complete, and what it did then.
fn started() -> Strict {
    let mut machine = Strict::new("arborescent");
    assert_eq!(machine.on(Event::Started), Action::ReadLedger);
    assert_eq!(machine.on(ledger(3)), Action::List(Selection::Recovery { tcn: 4 }));
    machine
}

/// A machine whose recovery found nothing.
fn ticking() -> Strict {
    let mut machine = started();
    assert_eq!(machine.on(Event::Listed(Vec::new())), Action::ReadQueue);
    machine
}

fn grafts(machine: &mut Strict, first: Action, stencil: &Stencil) -> Action {
    assert_eq!(first, marked(stencil, State::Started));
    assert_eq!(machine.on(Event::Written), Action::Push(stencil.clone()));
    assert_eq!(machine.phase(), &Phase::Pushing(stencil.to_string()));
    assert_eq!(machine.on(Event::Pushed { jobs: 4, cursor: None }), marked(stencil, State::Complete));
    machine.on(Event::Written)
}

#[test]
fn recovery_pushes_what_it_finds_and_then_ticks_at_once() {
    let (a, b) = (stencil(1, 4, 2), stencil(2, 4, 0));
    let mut machine = started();
    let first = machine.on(Event::Listed(vec![Ok(a.clone()), Ok(b.clone())]));
    let second = grafts(&mut machine, first, &a);
    assert_eq!(grafts(&mut machine, second, &b), Action::ReadQueue);
}

#[test]
fn a_quiet_tick_completes_the_tcn_and_pushes_the_next() {
    let mut machine = ticking();
    assert_eq!(machine.on(idle()), Action::CountStencils(Selection::Open { tcn: 4 }));
    assert_eq!(machine.on(Event::Counted(0)), Action::Complete { from: 3, to: 4 });
    assert_eq!(machine.on(Event::Written), Action::List(Selection::Open { tcn: 5 }));
    let a = stencil(1, 5, 2);
    let first = machine.on(Event::Listed(vec![Ok(a.clone())]));
    assert_eq!(grafts(&mut machine, first, &a), Action::Sleep);
    assert_eq!((machine.on(Event::Slept), machine.target()), (Action::ReadQueue, Some(5)));
}

#[test]
fn open_stencils_or_any_job_keep_it_waiting() {
    let own: BTreeMap<String, u64> = [("arborescent".to_owned(), 1)].into();
    let foreign: BTreeMap<String, u64> = [("mail".to_owned(), 1)].into();
    for (reading, open, waits) in [
        (Reading::default(), 1, true),
        (Reading { queues: own, ..Reading::default() }, 0, true),
        (Reading { working: 1, ..Reading::default() }, 0, true),
        (Reading { scheduled: 1, ..Reading::default() }, 0, true),
        (Reading { retries: 1, ..Reading::default() }, 0, true),
        (Reading { dead: 1, ..Reading::default() }, 0, true),
        (Reading { queues: foreign, processed: 9, ..Reading::default() }, 0, false),
    ] {
        let mut machine = ticking();
        machine.on(Event::Read(reading.clone()));
        let action = machine.on(Event::Counted(open));
        assert_eq!(action == Action::Sleep, waits, "{reading:?} {open}: {action:?}");
    }
}

/// State 3 is written as soon as the jobs are pushed, whatever becomes of them; they are never counted.
#[test]
fn flaw_1_jobs_that_vanish_are_not_missed() {
    let mut machine = started();
    let a = stencil(1, 4, 2);
    let first = machine.on(Event::Listed(vec![Ok(a.clone())]));
    grafts(&mut machine, first, &a);
    machine.on(idle());
    assert_eq!(machine.on(Event::Counted(0)), Action::Complete { from: 3, to: 4 });
}

/// What was interrupted is pushed from its first job on, by a process that begins anew after any failure.
#[test]
fn flaw_2_and_3_a_failure_begins_anew_and_pushes_all_again() {
    let a = stencil(1, 4, 2);
    for failed_at in 0..3 {
        let mut machine = started();
        machine.on(Event::Listed(vec![Ok(a.clone()), Ok(stencil(2, 4, 3))]));
        for event in [Event::Written, Event::Pushed { jobs: 1, cursor: None }].into_iter().take(failed_at) {
            machine.on(event);
        }
        assert_eq!(machine.on(Event::Failed), Action::ReadLedger, "{failed_at}");
        assert_eq!(machine.on(ledger(3)), Action::List(Selection::Recovery { tcn: 4 }));
        let half = Stencil { state: State::Started, ..a.clone() };
        machine.on(Event::Listed(vec![Ok(half.clone())]));
        assert_eq!(machine.on(Event::Written), Action::Push(half), "from the beginning");
    }
}

/// `max_tcn` is 4 here, and nobody looks at it.
#[test]
fn flaw_4_the_tcn_runs_away() {
    let mut machine = ticking();
    for tcn in 4..50 {
        machine.on(idle());
        assert_eq!(machine.on(Event::Counted(0)), Action::Complete { from: tcn - 1, to: tcn });
        assert_eq!(machine.on(Event::Written), Action::List(Selection::Open { tcn: tcn + 1 }));
        assert_eq!(machine.on(Event::Listed(Vec::new())), Action::Sleep);
        assert_eq!(machine.on(Event::Slept), Action::ReadQueue);
    }
}

/// An open stencil below the next TCN is counted at every tick, and pushed at none.
#[test]
fn flaw_7_a_low_stencil_blocks_for_ever() {
    let mut machine = ticking();
    for _ in 0..100 {
        machine.on(idle());
        assert_eq!(machine.on(Event::Counted(1)), Action::Sleep);
        let blocked = Phase::Blocked { jobs: Vec::new(), documents: Vec::new(), stencils: 1 };
        assert_eq!(machine.phase(), &blocked);
        assert_eq!(machine.on(Event::Slept), Action::ReadQueue);
    }
}

/// Recovery asks for stencils with rootstock 0, the loop does not.
#[test]
fn flaw_8_rootstock_0_is_only_recovered() {
    let zero = stencil(1, 4, 0);
    assert!(Selection::Recovery { tcn: 4 }.takes(&zero));
    assert!(!Selection::Open { tcn: 4 }.takes(&zero));
    let mut machine = started();
    assert_eq!(machine.on(Event::Listed(vec![Ok(zero.clone())])), marked(&zero, State::Started));
}

/// One reading is enough, also one that fell between a job's leaving the queue and its arrival at the worker.
#[test]
fn flaw_9_one_reading_advances() {
    let mut machine = ticking();
    machine.on(idle());
    assert!(matches!(machine.on(Event::Counted(0)), Action::Complete { .. }));
}

#[test]
fn flaw_15_an_empty_set_is_an_error_and_leaves_the_stencil_started() {
    let a = stencil(1, 4, 2);
    let mut machine = started();
    for _ in 0..3 {
        machine.on(Event::Listed(vec![Ok(a.clone())]));
        machine.on(Event::Written);
        let halt = machine.on(Event::Empty(Set::Scion { tcn: 2 }));
        let Action::Halt(Halt::EmptySet { stencil, set }) = halt else { panic!("{halt:?}") };
        assert_eq!((stencil, set), (a.to_string(), Set::Scion { tcn: 2 }));
        // It is started again, and dies again.
        machine.on(Event::Started);
        machine.on(ledger(3));
    }
}

#[test]
fn an_unreadable_stencil_stops_it_at_its_turn() {
    let a = stencil(1, 4, 2);
    let misread = Misread {
        collection: "stencils".to_owned(),
        id: "b".to_owned(),
        field: "state",
        found: "missing".to_owned(),
        wanted: "an integer",
    };
    let mut machine = started();
    let first = machine.on(Event::Listed(vec![Ok(a.clone()), Err(misread.clone())]));
    assert_eq!(grafts(&mut machine, first, &a), Action::Halt(Halt::Misread(misread)));
}

/// Whatever it waits for, what it does not wait for makes it begin anew.
#[test]
fn an_event_out_of_turn_begins_anew() {
    for event in [Event::Slept, Event::Counted(0), Event::LeaseLost, Event::Leased { epoch: 1 }] {
        assert_eq!(started().on(event), Action::ReadLedger);
    }
    assert_eq!(ticking().on(Event::Written), Action::ReadLedger);
}
