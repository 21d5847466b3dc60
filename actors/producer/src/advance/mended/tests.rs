//! Each branch of the default's rules, and each flaw of the original's rules, mended.

use super::*;
use crate::{
    id::Id,
    reading::{Count, Judgement, Place},
    stencil::Set,
};

fn rules() -> Rules {
    let judgement = Judgement { queue: "arborescent".to_owned(), count: Count::Queue, ignore_dead: false };
    Rules { judgement, page_size: 2, until_done: true }
}

fn stencil(number: u8, tcn: i64, state: State) -> Stencil {
    Stencil { id: Id([number; 12]), tcn, rootstock_tcn: 2, scion_tcn: tcn - 2, state, cursor: None }
}

fn census(count: u64) -> Census {
    Census { count, greatest: (count > 0).then_some(Id([count as u8; 12])) }
}

fn surveyed(roots: u64, scions: u64) -> Event {
    Event::Surveyed { roots: census(roots), scions: census(scions) }
}

fn idle(processed: u64) -> Event {
    Event::Read(Reading { processed, ..Reading::default() })
}

fn listed(stencils: &[Stencil]) -> Event {
    Event::Listed(stencils.iter().cloned().map(Ok).collect())
}

/// One producer, TCN 3 of 5 complete, epoch 7.
struct Play(Mended, Ledger);

impl Play {
    fn new() -> Self {
        let mut machine = Mended::new(rules());
        assert_eq!(machine.on(Event::Started), Action::TakeLease);
        assert_eq!(machine.on(Event::Leased { epoch: 7 }), Action::ReadLedger);
        Self(machine, Ledger { completed_tcn: 3, max_tcn: 5 })
    }

    /// The tick's first steps: all jobs done, these stencils unfinished.
    fn tick(&mut self, processed: u64, unfinished: &[Stencil]) -> Action {
        assert_eq!(self.0.on(Event::Ledger(self.1)), Action::ReadQueue);
        let tcn = (self.1.completed_tcn + 1).min(self.1.max_tcn);
        assert_eq!(self.0.on(idle(processed)), Action::List(Selection::Unfinished { tcn }));
        self.0.on(listed(unfinished))
    }

    fn sleep(&mut self, action: Action) {
        assert_eq!(action, Action::Sleep);
        assert_eq!(self.0.on(Event::Slept), Action::ReadLedger);
    }

    /// Pushes a stencil of 2 by 3 pages after its survey was asked for; gives its final cursor and what follows.
    fn graft(&mut self, stencil: &Stencil) -> (Cursor, Action) {
        let action = self.0.on(surveyed(4, 5));
        let Action::Mark(Mark { id, state: State::Started, cursor: Some(cursor) }) = action else {
            panic!("{action:?}")
        };
        assert_eq!(id, stencil.id);
        let action = self.0.on(Event::Written);
        let Action::Push(pushed) = action else { panic!("{action:?}") };
        assert_eq!((pushed.id, pushed.cursor), (stencil.id, Some(cursor)));
        let done = cursor.advanced(6, crate::cursor::Rest::Nothing);
        let action = self.0.on(Event::Pushed { jobs: 6, cursor: Some(done) });
        assert_eq!(action, Action::Mark(Mark { id, state: State::Complete, cursor: Some(done) }));
        (done, self.0.on(Event::Written))
    }

    /// Quiet ticks until it does more than sleep.
    fn quiet(&mut self, processed: u64) -> Action {
        let first = self.tick(processed, &[]);
        self.sleep(first);
        self.tick(processed, &[])
    }

    fn news(&mut self) -> Vec<News> {
        self.0.news()
    }
}

#[test]
fn a_standby_waits_and_takes_over() {
    let mut machine = Mended::new(rules());
    machine.on(Event::Started);
    assert_eq!(machine.on(Event::LeaseHeld), Action::Sleep);
    assert_eq!(machine.phase(), &Phase::Standby);
    assert_eq!(machine.on(Event::Slept), Action::TakeLease);
    assert_eq!(machine.phase(), &Phase::Standby);
    assert_eq!(machine.on(Event::Leased { epoch: 9 }), Action::ReadLedger);
    assert_eq!(machine.phase(), &Phase::Looking);
}

/// Flaw 11: whoever loses the lease does nothing more before it has it again, wherever it was.
#[test]
fn flaw_11_a_lost_lease_stops_everything() {
    let a = stencil(1, 4, State::New);
    for steps in 0..6 {
        let mut play = Play::new();
        let events = [
            Event::Ledger(play.1),
            idle(0),
            listed(std::slice::from_ref(&a)),
            surveyed(4, 5),
            Event::Written,
            Event::Pushed { jobs: 6, cursor: None },
        ];
        for event in events.into_iter().take(steps) {
            play.0.on(event);
        }
        assert_eq!(play.0.on(Event::LeaseLost), Action::TakeLease, "after {steps} steps");
    }
}

#[test]
fn a_new_stencil_is_pushed_from_a_fresh_cursor_with_the_lease_s_epoch() {
    let mut play = Play::new();
    let a = stencil(1, 4, State::New);
    assert_eq!(play.tick(0, std::slice::from_ref(&a)), Action::Survey(a.clone()));
    let (cursor, next) = play.graft(&a);
    assert_eq!((cursor.epoch, cursor.attempt, cursor.page_size, cursor.total()), (7, 0, 2, 6));
    play.sleep(next);
}

/// Flaws 2 and 3: what was begun goes on where it was, with the page size that it began with.
#[test]
fn flaw_2_and_3_a_started_stencil_goes_on_where_it_was() {
    let rest = crate::cursor::Rest::From { root: Id([4; 12]), scion: Id([5; 12]) };
    let before = Cursor::fresh(9, census(4), census(5), 3).advanced(2, rest);
    let a = Stencil { cursor: Some(before), ..stencil(1, 4, State::Started) };
    let mut play = Play::new();
    play.tick(0, std::slice::from_ref(&a));
    let Action::Mark(mark) = play.0.on(surveyed(4, 5)) else { panic!("a mark") };
    let cursor = mark.cursor.unwrap();
    assert_eq!((cursor.rest, cursor.pushed, cursor.page_size), (rest, 2, 9));
    assert_eq!((cursor.epoch, cursor.attempt), (7, 1));
}

/// The original leaves stencils in state 1 without a cursor: all of their jobs are pushed.
#[test]
fn a_stencil_that_the_original_began_begins_anew() {
    let mut play = Play::new();
    let a = stencil(1, 4, State::Started);
    play.tick(0, std::slice::from_ref(&a));
    assert_eq!(play.graft(&a).0.rest, crate::cursor::Rest::Nothing);
}

/// Flaw 9: one reading may be wrong. A reading is of no use to a tick that pushed.
#[test]
fn flaw_9_two_readings_in_a_row_are_needed() {
    let mut play = Play::new();
    let action = play.tick(0, &[]);
    play.sleep(action);
    // Between the two something shows up: it begins anew.
    assert_eq!(play.0.on(Event::Ledger(play.1)), Action::ReadQueue);
    play.0.on(Event::Read(Reading { working: 1, ..Reading::default() }));
    let action = play.0.on(listed(&[]));
    play.sleep(action);
    let action = play.tick(0, &[]);
    play.sleep(action);
    let a = stencil(1, 4, State::New);
    play.tick(0, std::slice::from_ref(&a));
    let (_, action) = play.graft(&a);
    play.sleep(action);
    assert_eq!(play.quiet(6), Action::List(Selection::Complete { tcn: 4 }));
    assert_eq!(play.0.on(listed(&[])), Action::Complete { from: 3, to: 4 });
    assert_eq!(play.0.on(Event::Written), Action::ReadLedger, "the next TCN follows without a pause");
}

#[test]
fn flaw_5_and_6_what_blocks_is_told() {
    let mut play = Play::new();
    play.0.on(Event::Ledger(play.1));
    play.0.on(Event::Read(Reading { dead: 3, ..Reading::default() }));
    let action = play.0.on(listed(&[]));
    let Phase::Blocked { jobs, .. } = play.0.phase() else { panic!("{:?}", play.0.phase()) };
    assert_eq!(jobs, &[Blocker { place: Place::Dead, jobs: 3 }]);
    play.sleep(action);
}

/// Flaw 4: it ends at `max_tcn`, and a greater one that is written later is taken up.
#[test]
fn flaw_4_it_ends_at_max_tcn() {
    let mut play = Play::new();
    play.1.completed_tcn = 5;
    assert_eq!(play.quiet(0), Action::Finish);
    assert_eq!((play.news(), play.0.phase()), (vec![News::Finished(5)], &Phase::Finished));
    let mut play = Play::new();
    play.0.rules.until_done = false;
    play.1.completed_tcn = 5;
    let action = play.quiet(0);
    play.sleep(action);
    let action = play.tick(0, &[]);
    assert_eq!((play.news(), play.0.phase()), (vec![News::Finished(5)], &Phase::Finished), "told once");
    play.sleep(action);
    play.1.max_tcn = 6;
    assert_eq!(play.tick(0, &[]), Action::List(Selection::Complete { tcn: 6 }));
}

/// Flaw 4 again: what is beyond `max_tcn` is not even looked for.
#[test]
fn stencils_beyond_max_tcn_are_left_alone() {
    let mut play = Play::new();
    play.1 = Ledger { completed_tcn: 5, max_tcn: 5 };
    play.0.on(Event::Ledger(play.1));
    assert_eq!(play.0.on(idle(0)), Action::List(Selection::Unfinished { tcn: 5 }));
}

/// Flaw 7: a stencil below the next TCN is pushed at once, whatever the queue holds.
#[test]
fn flaw_7_low_stencils_are_not_forgotten() {
    let mut play = Play::new();
    let low = stencil(1, 3, State::New);
    play.0.on(Event::Ledger(play.1));
    play.0.on(Event::Read(Reading { working: 5, ..Reading::default() }));
    assert_eq!(play.0.on(listed(std::slice::from_ref(&low))), Action::Survey(low.clone()));
    let (_, action) = play.graft(&low);
    play.sleep(action);
    assert_eq!(play.quiet(11), Action::List(Selection::Complete { tcn: 4 }));
    assert!(matches!(play.0.on(listed(&[])), Action::Survey(audited) if audited.id == low.id));
    assert_eq!(play.0.on(surveyed(4, 5)), Action::Complete { from: 3, to: 4 });
}

/// Flaw 8: rootstock 0 is asked for neither at the start nor later.
#[test]
fn flaw_8_rootstock_0_is_left_alone_everywhere() {
    let zero = Stencil { rootstock_tcn: 0, ..stencil(1, 4, State::Started) };
    assert!(!Selection::Unfinished { tcn: 4 }.takes(&zero));
    assert!(!Selection::Complete { tcn: 4 }.takes(&Stencil { state: State::Complete, ..zero }));
}

/// Flaw 15: an empty set blocks nothing, is told once, and is looked at again at every tick.
#[test]
fn flaw_15_no_headroom_is_told_and_reopened() {
    let mut play = Play::new();
    let mut a = stencil(1, 4, State::New);
    play.tick(0, std::slice::from_ref(&a));
    let no_headroom = Action::Mark(Mark { id: a.id, state: State::NoHeadroom, cursor: None });
    assert_eq!(play.0.on(surveyed(3, 0)), no_headroom);
    assert_eq!(play.news(), [News::NoHeadroom { stencil: a.to_string(), set: Set::Scion { tcn: 2 } }]);
    let action = play.0.on(Event::Written);
    play.sleep(action);
    a.state = State::NoHeadroom;
    play.tick(0, std::slice::from_ref(&a));
    assert_eq!(play.0.on(surveyed(3, 0)), Action::List(Selection::Complete { tcn: 4 }), "it does not block");
    assert_eq!(play.0.on(listed(&[])), Action::Complete { from: 3, to: 4 });
    assert_eq!(play.news(), []);
    play.0.on(Event::Written);
    play.1.completed_tcn = 4;
    assert_eq!(play.tick(0, std::slice::from_ref(&a)), Action::Survey(a.clone()));
    let (_, action) = play.graft(&a);
    assert!(play.news().contains(&News::Reopened(a.to_string())));
    play.sleep(action);
}

#[test]
fn a_set_that_empties_while_it_is_walked_is_no_headroom() {
    let mut play = Play::new();
    let a = stencil(1, 4, State::New);
    play.tick(0, std::slice::from_ref(&a));
    play.0.on(surveyed(3, 1));
    play.0.on(Event::Written);
    let no_headroom = Action::Mark(Mark { id: a.id, state: State::NoHeadroom, cursor: None });
    assert_eq!(play.0.on(Event::Empty(Set::Scion { tcn: 2 })), no_headroom);
}

/// Flaw 1: fewer jobs done than pushed means that some were lost; they are pushed again, as another attempt.
#[test]
fn flaw_1_jobs_that_vanished_are_pushed_again() {
    let mut play = Play::new();
    let a = stencil(1, 4, State::New);
    play.tick(10, std::slice::from_ref(&a));
    let (cursor, action) = play.graft(&a);
    play.sleep(action);
    let complete = Stencil { state: State::Complete, cursor: Some(cursor), ..a.clone() };
    assert_eq!(play.quiet(15), Action::List(Selection::Complete { tcn: 4 }));
    assert_eq!(play.news(), [News::Vanished { pushed: 6, done: 5 }]);
    assert_eq!(play.0.on(listed(std::slice::from_ref(&complete))), Action::Survey(complete.clone()));
    let (again, action) = play.graft(&a);
    assert_eq!((again.attempt, again.pushed), (1, 6));
    play.sleep(action);
    assert_eq!(play.quiet(21), Action::List(Selection::Complete { tcn: 4 }));
    assert_eq!(play.news(), [], "an audit this time");
    play.0.on(listed(&[complete]));
    assert_eq!(play.0.on(surveyed(4, 5)), Action::Complete { from: 3, to: 4 });
}

/// Flaw 10: tangles that came while a stencil's jobs were out may be in no page. The stencil is grafted again, but not for ever.
#[test]
fn flaw_10_changed_sets_are_grafted_again() {
    let mut play = Play::new();
    let old = Cursor::fresh(2, census(4), census(4), 6);
    let a = Stencil { cursor: Some(old), ..stencil(1, 4, State::Complete) };
    let mut done = 0;
    for _ in 0..REGRAFTS_MAX {
        assert_eq!(play.quiet(done), Action::List(Selection::Complete { tcn: 4 }));
        assert_eq!(play.0.on(listed(std::slice::from_ref(&a))), Action::Survey(a.clone()));
        let (_, action) = play.graft(&a);
        assert_eq!(play.news(), [News::Changed { stencil: a.to_string(), given_up: false }]);
        play.sleep(action);
        done += 6;
    }
    assert_eq!(play.quiet(done), Action::List(Selection::Complete { tcn: 4 }));
    play.0.on(listed(std::slice::from_ref(&a)));
    assert_eq!(play.0.on(surveyed(4, 5)), Action::Complete { from: 3, to: 4 });
    assert_eq!(play.news(), [News::Changed { stencil: a.to_string(), given_up: true }]);
}

#[test]
fn what_the_original_completed_is_not_audited() {
    let mut play = Play::new();
    assert_eq!(play.quiet(0), Action::List(Selection::Complete { tcn: 4 }));
    play.0.on(listed(&[stencil(1, 4, State::Complete)]));
    assert_eq!(play.0.on(surveyed(4, 5)), Action::Complete { from: 3, to: 4 });
}

#[test]
fn an_unreadable_stencil_blocks_and_the_others_go_on() {
    let misread = Misread {
        collection: "stencils".to_owned(),
        id: "b".to_owned(),
        field: "state",
        found: "missing".to_owned(),
        wanted: "an integer",
    };
    let a = stencil(1, 4, State::New);
    let mut play = Play::new();
    play.0.on(Event::Ledger(play.1));
    play.0.on(idle(0));
    let action = play.0.on(Event::Listed(vec![Err(misread.clone()), Ok(a.clone())]));
    assert_eq!(action, Action::Survey(a.clone()));
    let (_, action) = play.graft(&a);
    assert_eq!(play.news(), [News::Misread(misread.clone())]);
    play.sleep(action);
    for _ in 0..4 {
        play.0.on(Event::Ledger(play.1));
        play.0.on(idle(6));
        let action = play.0.on(Event::Listed(vec![Err(misread.clone())]));
        let Phase::Blocked { documents, .. } = play.0.phase() else { panic!("{:?}", play.0.phase()) };
        assert_eq!((documents, action.clone()), (&vec![misread.clone()], Action::Sleep));
        play.sleep(action);
    }
    assert_eq!(play.news(), [], "told once");
}
