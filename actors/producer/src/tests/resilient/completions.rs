//! Deliveries of completed TCNs under failed calls and kills: each at least once, always with the same id, in
//! order.

use std::collections::BTreeMap;

use orchestrator_supervise::{Inbox, inbox};

use super::*;
use orchestrator_producer_rules::advance::Action;

use crate::{
    completion::{Completion, Delivery, UNDELIVERED_MAX},
    tests::simulation::{End, Fault, run_delivering, settings},
};

/// Receiver that fails each completion some times, and then accepts it.
async fn receive(mut requests: Inbox<Delivery>, failures: usize, received: &RefCell<Vec<Completion>>) {
    while let Some(Delivery { completion, reply }) = requests.recv().await {
        for _ in 0..=failures {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            received.borrow_mut().push(completion);
        }
        // The caller may have been killed.
        let _ = reply.send(());
    }
}

/// Runs one producer after the other until one finishes. Returns all deliveries, and how many producers were
/// killed.
async fn run_until_finished(simulation: &Rc<RefCell<Simulation>>, failures: usize) -> (Vec<Completion>, u32) {
    let received = RefCell::new(Vec::new());
    for killed in 0.. {
        let (outbox, slot) = inbox(16);
        let settings = settings(false, 2, 10, &format!("p{killed}"));
        let process = process(simulation);
        let end = tokio::select! {
            end = run_delivering(machine(2), settings, &process, outbox) => end,
            () = receive(slot.open(), failures, &received) => panic!("the inbox ended"),
        };
        match end {
            End::Returned(Action::Finish) => return (received.into_inner(), killed),
            End::Killed => {}
            end => panic!("{end:?}"),
        }
    }
    unreachable!("the loop returns")
}

fn two_tcns() -> Simulation {
    let stencils = [stencil(1, 2, 2), stencil(2, 2, 3), stencil(3, 3, 2), stencil(4, 0, 5)];
    simulation_with(&[9, 0, 12, 9], &stencils, 3, 5)
}

#[tokio::test(start_paused = true)]
async fn each_tcn_is_delivered_in_order_with_its_counts_and_duration() {
    let simulation = Rc::new(RefCell::new(two_tcns()));
    let (received, _) = run_until_finished(&simulation, 3).await;
    let jobs: Vec<u64> = [4, 5]
        .map(|tcn| {
            all_jobs(&simulation.borrow(), 2)
                .iter()
                .filter(|pair| pair.tcn() == tcn && pair.root_tcn != 0)
                .count() as u64
        })
        .to_vec();
    let wanted: Vec<_> =
        [(4, 1, jobs[0]), (5, 2, jobs[1])].into_iter().flat_map(|counts| [counts; 4]).collect();
    let counts: Vec<_> = received.iter().map(|done| (done.tcn, done.stencils, done.jobs)).collect();
    assert_eq!(counts, wanted);
    for pair in received.windows(2) {
        assert_eq!(pair[0].id == pair[1].id, pair[0].tcn == pair[1].tcn, "{pair:?}");
        assert!(pair[0].started_ms <= Some(pair[0].completed_ms), "{pair:?}");
    }
    assert!(
        received[4].started_ms >= Some(received[0].completed_ms),
        "TCN 5 starts after TCN 4: {received:?}"
    );
    assert_eq!(simulation.borrow().completions.undelivered, [], "nothing is left");
}

/// One fault at any call of a run.
#[tokio::test(start_paused = true)]
async fn a_fault_at_any_call_loses_no_delivery_and_changes_no_id() {
    let calm = Rc::new(RefCell::new(two_tcns()));
    run_until_finished(&calm, 0).await;
    let calls = calm.borrow().calls;
    let (mut repeated, mut kills) = (0, 0);
    for fault in [Fault::KillBefore, Fault::KillAfter, Fault::LostReply, Fault::Cut] {
        for at in 1..=calls {
            let simulation = Rc::new(RefCell::new(two_tcns()));
            simulation.borrow_mut().faults.insert(at, fault);
            let (received, killed) = run_until_finished(&simulation, 0).await;
            let mut ids = BTreeMap::new();
            for completion in &received {
                let id = *ids.entry(completion.tcn).or_insert(completion.id);
                assert_eq!(id, completion.id, "{fault:?} at call {at}: {received:?}");
            }
            assert_eq!(ids.keys().copied().collect::<Vec<_>>(), [4, 5], "{fault:?} at call {at}");
            assert_eq!(simulation.borrow().completions.undelivered, [], "{fault:?} at call {at}");
            repeated += received.len() - ids.len();
            kills += killed;
        }
    }
    assert!(repeated > 0 && kills > 0, "{repeated} repeated, {kills} kills");
}

/// A receiver that accepts nothing does not let the configuration document grow without end.
#[tokio::test(start_paused = true)]
async fn the_next_tcn_waits_while_too_many_completions_are_undelivered() {
    let max_tcn = UNDELIVERED_MAX as i64 + 5;
    let simulation = Rc::new(RefCell::new(simulation_with(&[], &[], 0, max_tcn)));
    let (outbox, slot) = inbox(16);
    let _unanswered = slot.open();
    let process = process(&simulation);
    let running = run_delivering(machine(2), settings(false, 2, 10, "p"), &process, outbox);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(10_000), running).await;
    assert!(ended.is_err(), "{ended:?}");
    assert_eq!(simulation.borrow().completions.undelivered.len(), UNDELIVERED_MAX);
    let (received, _) = run_until_finished(&simulation, 0).await;
    let tcns: Vec<_> = received.iter().map(|done| done.tcn).collect();
    assert_eq!(tcns, (1..=max_tcn).collect::<Vec<_>>());
}
