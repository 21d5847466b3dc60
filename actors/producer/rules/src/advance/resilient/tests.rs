//! Each branch of the default rules. Tests named `flaw_N` show that flaw N of the original is avoided.

use super::*;
use crate::{
    id::Id,
    queue_state::{CompletionCriteria, CountedQueues, JobLocation},
    stencil::Set,
};

fn rules() -> Rules {
    let criteria = CompletionCriteria {
        queues: ["arborescent".to_owned()].into(),
        count: CountedQueues::Queue,
        ignore_dead: false,
    };
    Rules { criteria, page_size: 2, until_done: true }
}

fn stencil(number: u8, tcn: i64, state: State) -> Stencil {
    Stencil { id: Id([number; 12]), tcn, rootstock_tcn: 2, scion_tcn: tcn - 2, state, cursor: None }
}

fn summary(count: u64) -> SetSummary {
    SetSummary { count, greatest: (count > 0).then_some(Id([count as u8; 12])) }
}

fn sets_summarized(roots: u64, scions: u64) -> Event {
    Event::SetsSummarized { roots: summary(roots), scions: summary(scions) }
}

fn idle(processed: u64) -> Event {
    Event::QueueRead(QueueState { processed, ..QueueState::default() })
}

fn listed(stencils: &[Stencil]) -> Event {
    Event::Listed(stencils.iter().cloned().map(Ok).collect())
}

/// Machine and configuration document: TCN 3 of 5 is complete, epoch 7.
struct Fixture(Resilient, ConfigDocument);

impl Fixture {
    fn new() -> Self {
        let mut machine = Resilient::new(rules());
        assert_eq!(machine.on(Event::Started), Action::TakeLease);
        assert_eq!(machine.on(Event::Leased { epoch: 7 }), Action::ReadConfig);
        Self(machine, ConfigDocument { completed_tcn: 3, max_tcn: 5 })
    }

    /// Runs the first steps of a tick with all jobs done and these stencils unfinished.
    fn tick(&mut self, processed: u64, unfinished: &[Stencil]) -> Action {
        assert_eq!(self.0.on(Event::ConfigRead(self.1)), Action::ReadQueue);
        let tcn = (self.1.completed_tcn + 1).min(self.1.max_tcn);
        assert_eq!(self.0.on(idle(processed)), Action::List(Selection::Unfinished { tcn }));
        self.0.on(listed(unfinished))
    }

    fn sleep(&mut self, action: Action) {
        assert_eq!(action, Action::Sleep);
        assert_eq!(self.0.on(Event::Slept), Action::ReadConfig);
    }

    /// Pushes a stencil of 2 by 3 pages after `SummarizeSets`. Returns its final cursor and the next action.
    fn push_stencil(&mut self, stencil: &Stencil) -> (Cursor, Action) {
        let action = self.0.on(sets_summarized(4, 5));
        let Action::UpdateStencil(StencilUpdate { id, state: State::Started, cursor: Some(cursor) }) = action
        else {
            panic!("{action:?}")
        };
        assert_eq!(id, stencil.id);
        let action = self.0.on(Event::Written);
        let Action::Push(pushed) = action else { panic!("{action:?}") };
        assert_eq!((pushed.id, pushed.cursor), (stencil.id, Some(cursor)));
        let done = cursor.advanced(6, crate::cursor::Remaining::Nothing);
        let action = self.0.on(Event::Pushed { jobs: 6, cursor: Some(done) });
        assert_eq!(
            action,
            Action::UpdateStencil(StencilUpdate { id, state: State::Complete, cursor: Some(done) })
        );
        (done, self.0.on(Event::Written))
    }

    /// Runs two idle ticks.
    fn idle_ticks(&mut self, processed: u64) -> Action {
        let first = self.tick(processed, &[]);
        self.sleep(first);
        self.tick(processed, &[])
    }

    fn notices(&mut self) -> Vec<Notice> {
        self.0.notices()
    }
}

#[test]
fn a_standby_takes_over() {
    let mut machine = Resilient::new(rules());
    machine.on(Event::Started);
    assert_eq!(machine.on(Event::LeaseHeld), Action::Sleep);
    assert_eq!(machine.phase(), &Phase::Standby);
    assert_eq!(machine.on(Event::Slept), Action::TakeLease);
    assert_eq!(machine.phase(), &Phase::Standby);
    assert_eq!(machine.on(Event::Leased { epoch: 9 }), Action::ReadConfig);
    assert_eq!(machine.phase(), &Phase::Checking);
}

/// Flaw 11: after a lost lease, the next action is to take it, at any step.
#[test]
fn flaw_11_a_lost_lease_stops_all_actions() {
    let a = stencil(1, 4, State::New);
    for steps in 0..6 {
        let mut fixture = Fixture::new();
        let events = [
            Event::ConfigRead(fixture.1),
            idle(0),
            listed(std::slice::from_ref(&a)),
            sets_summarized(4, 5),
            Event::Written,
            Event::Pushed { jobs: 6, cursor: None },
        ];
        for event in events.into_iter().take(steps) {
            fixture.0.on(event);
        }
        assert_eq!(fixture.0.on(Event::LeaseLost), Action::TakeLease, "after {steps} steps");
    }
}

#[test]
fn a_new_stencil_has_a_new_cursor_with_the_epoch_of_the_lease() {
    let mut fixture = Fixture::new();
    let a = stencil(1, 4, State::New);
    assert_eq!(fixture.tick(0, std::slice::from_ref(&a)), Action::SummarizeSets(a.clone()));
    let (cursor, next) = fixture.push_stencil(&a);
    assert_eq!((cursor.epoch, cursor.attempt, cursor.page_size, cursor.total()), (7, 0, 2, 6));
    fixture.sleep(next);
}

/// Flaws 2 and 3: a started stencil resumes at its cursor, with its own page size.
#[test]
fn flaw_2_and_3_a_started_stencil_resumes_at_its_cursor() {
    let remaining = crate::cursor::Remaining::From { root: Id([4; 12]), scion: Id([5; 12]) };
    let before = Cursor::start(9, summary(4), summary(5), 3).advanced(2, remaining);
    let a = Stencil { cursor: Some(before), ..stencil(1, 4, State::Started) };
    let mut fixture = Fixture::new();
    fixture.tick(0, std::slice::from_ref(&a));
    let Action::UpdateStencil(update) = fixture.0.on(sets_summarized(4, 5)) else { panic!("a mark") };
    let cursor = update.cursor.unwrap();
    assert_eq!((cursor.remaining, cursor.pushed, cursor.page_size), (remaining, 2, 9));
    assert_eq!((cursor.epoch, cursor.attempt), (7, 1));
}

/// The original leaves stencils in state 1 without a cursor; all of their jobs are pushed.
#[test]
fn a_stencil_started_by_the_original_starts_over() {
    let mut fixture = Fixture::new();
    let a = stencil(1, 4, State::Started);
    fixture.tick(0, std::slice::from_ref(&a));
    assert_eq!(fixture.push_stencil(&a).0.remaining, crate::cursor::Remaining::Nothing);
}

/// Flaw 9: a TCN is complete after two idle readings; a tick that pushed does not count.
#[test]
fn flaw_9_a_tcn_needs_two_idle_readings() {
    let mut fixture = Fixture::new();
    let action = fixture.tick(0, &[]);
    fixture.sleep(action);
    // A job between the two readings resets the count.
    assert_eq!(fixture.0.on(Event::ConfigRead(fixture.1)), Action::ReadQueue);
    fixture.0.on(Event::QueueRead(QueueState { working: 1, ..QueueState::default() }));
    let action = fixture.0.on(listed(&[]));
    fixture.sleep(action);
    let action = fixture.tick(0, &[]);
    fixture.sleep(action);
    let a = stencil(1, 4, State::New);
    fixture.tick(0, std::slice::from_ref(&a));
    let (_, action) = fixture.push_stencil(&a);
    fixture.sleep(action);
    assert_eq!(fixture.idle_ticks(6), Action::List(Selection::Complete { tcn: 4 }));
    assert_eq!(fixture.0.on(listed(&[])), Action::Complete { from: 3, to: 4 });
    assert_eq!(fixture.0.on(Event::Written), Action::ReadConfig, "the next TCN follows without a pause");
}

#[test]
fn flaw_5_and_6_blocking_jobs_are_reported() {
    let mut fixture = Fixture::new();
    fixture.0.on(Event::ConfigRead(fixture.1));
    fixture.0.on(Event::QueueRead(QueueState { dead: 3, ..QueueState::default() }));
    let action = fixture.0.on(listed(&[]));
    let Phase::Blocked { jobs, .. } = fixture.0.phase() else { panic!("{:?}", fixture.0.phase()) };
    assert_eq!(jobs, &[Blocker { location: JobLocation::Dead, jobs: 3 }]);
    fixture.sleep(action);
}

/// Flaw 4: the producer ends at `max_tcn`, or continues with a greater one.
#[test]
fn flaw_4_the_producer_ends_at_max_tcn() {
    let mut fixture = Fixture::new();
    fixture.1.completed_tcn = 5;
    assert_eq!(fixture.idle_ticks(0), Action::Finish);
    assert_eq!((fixture.notices(), fixture.0.phase()), (vec![Notice::Finished(5)], &Phase::Finished));
    let mut fixture = Fixture::new();
    fixture.0.rules.until_done = false;
    fixture.1.completed_tcn = 5;
    let action = fixture.idle_ticks(0);
    fixture.sleep(action);
    let action = fixture.tick(0, &[]);
    assert_eq!(
        (fixture.notices(), fixture.0.phase()),
        (vec![Notice::Finished(5)], &Phase::Finished),
        "reported once"
    );
    fixture.sleep(action);
    fixture.1.max_tcn = 6;
    assert_eq!(fixture.tick(0, &[]), Action::List(Selection::Complete { tcn: 6 }));
}

/// Flaw 4: stencils beyond `max_tcn` are not listed.
#[test]
fn stencils_beyond_max_tcn_are_not_listed() {
    let mut fixture = Fixture::new();
    fixture.1 = ConfigDocument { completed_tcn: 5, max_tcn: 5 };
    fixture.0.on(Event::ConfigRead(fixture.1));
    assert_eq!(fixture.0.on(idle(0)), Action::List(Selection::Unfinished { tcn: 5 }));
}

/// Flaw 7: a stencil below the next TCN is pushed at once, whatever the queue has.
#[test]
fn flaw_7_a_stencil_below_the_next_tcn_is_pushed() {
    let mut fixture = Fixture::new();
    let low = stencil(1, 3, State::New);
    fixture.0.on(Event::ConfigRead(fixture.1));
    fixture.0.on(Event::QueueRead(QueueState { working: 5, ..QueueState::default() }));
    assert_eq!(fixture.0.on(listed(std::slice::from_ref(&low))), Action::SummarizeSets(low.clone()));
    let (_, action) = fixture.push_stencil(&low);
    fixture.sleep(action);
    assert_eq!(fixture.idle_ticks(11), Action::List(Selection::Complete { tcn: 4 }));
    assert!(matches!(fixture.0.on(listed(&[])), Action::SummarizeSets(audited) if audited.id == low.id));
    assert_eq!(fixture.0.on(sets_summarized(4, 5)), Action::Complete { from: 3, to: 4 });
}

/// Flaw 8: stencils with rootstock 0 are never selected.
#[test]
fn flaw_8_rootstock_0_is_never_selected() {
    let zero = Stencil { rootstock_tcn: 0, ..stencil(1, 4, State::Started) };
    assert!(!Selection::Unfinished { tcn: 4 }.selects(&zero));
    assert!(!Selection::Complete { tcn: 4 }.selects(&Stencil { state: State::Complete, ..zero }));
}

/// Flaw 15: an empty set does not block, is reported once, and is checked again at every tick.
#[test]
fn flaw_15_a_stencil_without_jobs_is_reported_and_reopened() {
    let mut fixture = Fixture::new();
    let mut a = stencil(1, 4, State::New);
    fixture.tick(0, std::slice::from_ref(&a));
    let no_headroom =
        Action::UpdateStencil(StencilUpdate { id: a.id, state: State::NoHeadroom, cursor: None });
    assert_eq!(fixture.0.on(sets_summarized(3, 0)), no_headroom);
    assert_eq!(
        fixture.notices(),
        [Notice::NoHeadroom { stencil: a.to_string(), set: Set::Scion { tcn: 2 } }]
    );
    let action = fixture.0.on(Event::Written);
    fixture.sleep(action);
    a.state = State::NoHeadroom;
    fixture.tick(0, std::slice::from_ref(&a));
    assert_eq!(
        fixture.0.on(sets_summarized(3, 0)),
        Action::List(Selection::Complete { tcn: 4 }),
        "it does not block"
    );
    assert_eq!(fixture.0.on(listed(&[])), Action::Complete { from: 3, to: 4 });
    assert_eq!(fixture.notices(), []);
    fixture.0.on(Event::Written);
    fixture.1.completed_tcn = 4;
    assert_eq!(fixture.tick(0, std::slice::from_ref(&a)), Action::SummarizeSets(a.clone()));
    let (_, action) = fixture.push_stencil(&a);
    assert!(fixture.notices().contains(&Notice::Reopened(a.to_string())));
    fixture.sleep(action);
}

#[test]
fn a_set_that_becomes_empty_during_a_walk_has_no_jobs() {
    let mut fixture = Fixture::new();
    let a = stencil(1, 4, State::New);
    fixture.tick(0, std::slice::from_ref(&a));
    fixture.0.on(sets_summarized(3, 1));
    fixture.0.on(Event::Written);
    let no_headroom =
        Action::UpdateStencil(StencilUpdate { id: a.id, state: State::NoHeadroom, cursor: None });
    assert_eq!(fixture.0.on(Event::Empty(Set::Scion { tcn: 2 })), no_headroom);
}

/// Flaw 1: fewer jobs processed than pushed are pushed again, as another attempt.
#[test]
fn flaw_1_lost_jobs_are_pushed_again() {
    let mut fixture = Fixture::new();
    let a = stencil(1, 4, State::New);
    fixture.tick(10, std::slice::from_ref(&a));
    let (cursor, action) = fixture.push_stencil(&a);
    fixture.sleep(action);
    let complete = Stencil { state: State::Complete, cursor: Some(cursor), ..a.clone() };
    assert_eq!(fixture.idle_ticks(15), Action::List(Selection::Complete { tcn: 4 }));
    assert_eq!(fixture.notices(), [Notice::JobsLost { pushed: 6, done: 5 }]);
    assert_eq!(
        fixture.0.on(listed(std::slice::from_ref(&complete))),
        Action::SummarizeSets(complete.clone())
    );
    let (again, action) = fixture.push_stencil(&a);
    assert_eq!((again.attempt, again.pushed), (1, 6));
    fixture.sleep(action);
    assert_eq!(fixture.idle_ticks(21), Action::List(Selection::Complete { tcn: 4 }));
    assert_eq!(fixture.notices(), [], "an audit this time");
    fixture.0.on(listed(&[complete]));
    assert_eq!(fixture.0.on(sets_summarized(4, 5)), Action::Complete { from: 3, to: 4 });
}

/// Flaw 10: a stencil whose sets changed is pushed again, at most five times.
#[test]
fn flaw_10_a_stencil_with_changed_sets_is_pushed_again() {
    let mut fixture = Fixture::new();
    let old = Cursor::start(2, summary(4), summary(4), 6);
    let a = Stencil { cursor: Some(old), ..stencil(1, 4, State::Complete) };
    let mut done = 0;
    for _ in 0..REPUSHES_MAX {
        assert_eq!(fixture.idle_ticks(done), Action::List(Selection::Complete { tcn: 4 }));
        assert_eq!(fixture.0.on(listed(std::slice::from_ref(&a))), Action::SummarizeSets(a.clone()));
        let (_, action) = fixture.push_stencil(&a);
        assert_eq!(fixture.notices(), [Notice::SetsChanged { stencil: a.to_string(), given_up: false }]);
        fixture.sleep(action);
        done += 6;
    }
    assert_eq!(fixture.idle_ticks(done), Action::List(Selection::Complete { tcn: 4 }));
    fixture.0.on(listed(std::slice::from_ref(&a)));
    assert_eq!(fixture.0.on(sets_summarized(4, 5)), Action::Complete { from: 3, to: 4 });
    assert_eq!(fixture.notices(), [Notice::SetsChanged { stencil: a.to_string(), given_up: true }]);
}

#[test]
fn a_stencil_completed_by_the_original_is_not_audited() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.idle_ticks(0), Action::List(Selection::Complete { tcn: 4 }));
    fixture.0.on(listed(&[stencil(1, 4, State::Complete)]));
    assert_eq!(fixture.0.on(sets_summarized(4, 5)), Action::Complete { from: 3, to: 4 });
}

#[test]
fn an_invalid_stencil_blocks_only_completion() {
    let invalid = InvalidDocument {
        collection: "stencils".to_owned(),
        id: "b".to_owned(),
        field: "state",
        found: "missing".to_owned(),
        wanted: "an integer",
    };
    let a = stencil(1, 4, State::New);
    let mut fixture = Fixture::new();
    fixture.0.on(Event::ConfigRead(fixture.1));
    fixture.0.on(idle(0));
    let action = fixture.0.on(Event::Listed(vec![Err(invalid.clone()), Ok(a.clone())]));
    assert_eq!(action, Action::SummarizeSets(a.clone()));
    let (_, action) = fixture.push_stencil(&a);
    assert_eq!(fixture.notices(), [Notice::InvalidDocument(invalid.clone())]);
    fixture.sleep(action);
    for _ in 0..4 {
        fixture.0.on(Event::ConfigRead(fixture.1));
        fixture.0.on(idle(6));
        let action = fixture.0.on(Event::Listed(vec![Err(invalid.clone())]));
        let Phase::Blocked { documents, .. } = fixture.0.phase() else { panic!("{:?}", fixture.0.phase()) };
        assert_eq!((documents, action.clone()), (&vec![invalid.clone()], Action::Sleep));
        fixture.sleep(action);
    }
    assert_eq!(fixture.notices(), [], "reported once");
}
