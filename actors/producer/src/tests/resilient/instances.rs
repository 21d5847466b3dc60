//! Two producers of one database.

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use orchestrator_producer_rules::advance::Action;

use crate::tests::simulation::{End, Fault, run, settings};

fn made() -> Simulation {
    simulation_with(&[0, 0, 90, 90, 40], &[stencil(1, 2, 3), stencil(2, 3, 2), stencil(3, 2, 4)], 4, 6)
}

/// Flaw 11: one of two producers works; the other takes over when it ends.
#[tokio::test(start_paused = true)]
async fn flaw_11_two_producers_push_each_job_once() {
    let simulation = Rc::new(RefCell::new(made()));
    let (one, other) = (process(&simulation), process(&simulation));
    let (one, other) = tokio::join!(
        run(machine(2), settings(false, 2, 20, "one"), &one),
        run(machine(2), settings(false, 2, 20, "other"), &other),
    );
    assert_eq!([one, other], [End::Returned(Action::Finish), End::Returned(Action::Finish)]);
    assert_complete(&simulation.borrow(), 2, "two");
    assert_eq!(simulation.borrow().duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_standby_takes_over_after_the_lease() {
    for at in (3..130).step_by(7) {
        let simulation = Rc::new(RefCell::new(made()));
        let (one, other) = (process(&simulation), process(&simulation));
        simulation.borrow_mut().faults.insert(at, Fault::KillBefore);
        let ended = async |process: SimulatedProcess, holder: &str| {
            let end = run(machine(2), settings(false, 2, 20, holder), &process).await;
            (end, Instant::now())
        };
        let started = Instant::now();
        let (one, other) = tokio::join!(ended(one, "one"), ended(other, "other"));
        let ends = [&one.0, &other.0];
        assert!(
            ends.contains(&&End::Killed) && ends.contains(&&End::Returned(Action::Finish)),
            "{at}: {ends:?}"
        );
        assert_complete(&simulation.borrow(), 2, &format!("killed at call {at}"));
        let most = simulation.borrow().ambiguous as usize * 20;
        assert!(simulation.borrow().duplicates() <= most, "killed at call {at}");
        // The lease, the polls of the standby, and the ticks of two TCNs.
        let took = one.1.max(other.1) - started;
        assert!(took < Duration::from_secs(30 + 3 + 30), "{at}: {took:?}");
    }
}

/// Lets another holder take the lease and release it.
fn take_lease_away(simulation: &mut Simulation) {
    let lease = simulation.lease.as_mut().expect("a lease");
    lease.epoch += 1;
    lease.holder = "other".to_owned();
    lease.until_ms = 0;
}

/// A process that was suspended beyond its lease checks the lease before the next chunk, since the queue
/// cannot fence.
#[tokio::test(start_paused = true)]
async fn a_suspended_producer_pushes_nothing_under_a_lost_lease() {
    let simulation = Rc::new(RefCell::new(made()));
    let chunks = std::cell::Cell::new(0);
    let suspend = move |simulation: &mut Simulation| {
        chunks.set(chunks.get() + 1);
        if chunks.get() % 5 > 0 {
            return Duration::ZERO;
        }
        take_lease_away(simulation);
        Duration::from_secs(31)
    };
    let process = SimulatedProcess { before_chunk: Rc::new(suspend), ..process(&simulation) };
    let end = run(machine(2), settings(false, 2, 20, "one"), &process).await;
    assert_eq!(end, End::Returned(Action::Finish));
    assert_complete(&simulation.borrow(), 2, "suspended");
    assert_eq!(simulation.borrow().duplicates(), 0);
}

/// A lease counts from the time at which the clock was read, even if writing it takes long.
#[tokio::test(start_paused = true)]
async fn a_lease_that_took_long_to_get_is_renewed_before_use() {
    let simulation = Rc::new(RefCell::new(made()));
    // The first call reads clock and lease, the second takes it: 35 s of failures, longer than the lease.
    simulation.borrow_mut().faults.extend((2..700).map(|call| (call, Fault::Cut)));
    let end = run(machine(2), settings(false, 2, 20, "one"), &process(&simulation)).await;
    assert_eq!(end, End::Returned(Action::Finish));
    assert_complete(&simulation.borrow(), 2, "slow");
}

/// A lease that is taken before its end fences all writes of the former holder: one chunk each time is
/// repeated at most, and the former holder completes no TCN.
#[tokio::test(start_paused = true)]
async fn a_former_holder_writes_nothing() {
    let simulation = Rc::new(RefCell::new(made()));
    let times = Rc::new(std::cell::Cell::new(0));
    let counted = times.clone();
    let process = SimulatedProcess::new(&simulation, move |simulation| {
        counted.set(counted.get() + 1);
        take_lease_away(simulation);
        simulation.complete_jobs();
        true
    });
    let mut settings = settings(false, 2, 20, "one");
    settings.marks = orchestrator_producer_rules::watermark::WaterMarks { high: 60, low: 10 };
    let running = run(machine(2), settings, &process);
    // No two idle ticks fall under one lease.
    let ended = tokio::time::timeout(Duration::from_secs(3_600), running).await;
    assert!(ended.is_err(), "{ended:?}");
    let simulation = simulation.borrow();
    assert_eq!(simulation.config.unwrap().completed_tcn, 4);
    let pushed: BTreeSet<&Pair> = simulation.pushed.iter().map(|(pair, _)| pair).collect();
    assert_eq!(pushed.len(), 2 * 45 * 30);
    assert!(simulation.duplicates() <= 20 * times.get(), "{} of {}", simulation.duplicates(), times.get());
}

/// Jobs that wait for a connection are withdrawn at the end of a lease that cannot be renewed: another
/// producer may push them.
#[tokio::test(start_paused = true)]
async fn jobs_that_wait_longer_than_the_lease_are_not_pushed() {
    let simulation = Rc::new(RefCell::new(made()));
    let chunks = std::cell::Cell::new(0);
    let cut_off = move |simulation: &mut Simulation| {
        chunks.set(chunks.get() + 1);
        if chunks.get() == 5 {
            simulation.push_waits = Duration::from_secs(60);
            simulation.away_until = Some(Instant::now() + Duration::from_secs(70));
        }
        Duration::ZERO
    };
    let process = SimulatedProcess { before_chunk: Rc::new(cut_off), ..process(&simulation) };
    let end = run(machine(2), settings(false, 2, 20, "one"), &process).await;
    assert_eq!(end, End::Returned(Action::Finish));
    assert_complete(&simulation.borrow(), 2, "cut off");
    assert_eq!(simulation.borrow().duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_producer_that_lost_its_lease_is_not_held_by_the_high_mark() {
    let simulation = Rc::new(RefCell::new(made()));
    let process = SimulatedProcess::new(&simulation, |simulation| {
        if simulation.held {
            take_lease_away(simulation);
            simulation.lease.as_mut().expect("a lease").until_ms = i64::MAX;
        }
        true
    });
    let mut settings = settings(false, 2, 20, "one");
    settings.marks = orchestrator_producer_rules::watermark::WaterMarks { high: 60, low: 10 };
    let running = run(machine(2), settings, &process);
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
    assert!(ended.is_err(), "{ended:?}");
    let simulation = simulation.borrow();
    assert_eq!(simulation.lease.as_ref().map(|lease| lease.holder.as_str()), Some("other"));
    assert!(!simulation.held, "it is on standby");
}
