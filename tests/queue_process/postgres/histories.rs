//! Histories: three instances share a queue while they are killed, suspended and started at random moments.
//! Rules and their limits are those of `tests/recovery/kill_nine.rs`.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Instance, Postgres,
    load::{Disruption, SeededRng, for_each_seed},
    rounds, wait_for,
};
use rustix::process::Signal;

use super::{Load, SharedQueue};

const INSTANCES: usize = 3;
/// Shortest duration of a history in which instances are suspended for longer than a lease, in seconds.
const LONG: u64 = 20;

/// Shortest suspension that is called long: of one instance at a time, about as long as a lease.
const LONG_SUSPENSION: Duration = Duration::from_secs(14);

/// State of an instance between two events.
enum State {
    Runs(Instance),
    Killed { until: Instant },
    Suspended { instance: Instance, from: Instant, until: Instant },
}

impl State {
    /// Returns true for a suspension that can end the lease.
    fn is_suspended_long(&self) -> bool {
        matches!(self, Self::Suspended { from, until, .. } if *until - *from >= LONG_SUSPENSION)
    }
}

#[test]
fn kills_and_freezes_lose_no_job_and_redeliver_one_per_connection_at_most() {
    for_each_seed("ORCHESTRATOR_QUEUE_POSTGRES_SEEDS", 3, |seed| {
        let server = Postgres::shared();
        let mut rng = SeededRng::new(seed);
        let queue = SharedQueue::new(server, &format!("history{seed}"), INSTANCES);
        let mut states: Vec<State> = queue.sites.iter().map(|site| State::Runs(site.spawn())).collect();
        let mut load = Load::start(queue, &mut rng);
        let span = rounds("ORCHESTRATOR_QUEUE_POSTGRES_SECS", 3);
        let end = Instant::now() + Duration::from_secs(span);
        while Instant::now() < end {
            let one = rng.below(INSTANCES);
            let state = std::mem::replace(&mut states[one], State::Killed { until: end });
            let is_long = span >= LONG && !states.iter().any(State::is_suspended_long);
            states[one] = match state {
                State::Runs(instance) => disrupt(instance, one, is_long, &mut load, &mut rng),
                other => resume(other, one, Instant::now(), &mut load),
            };
            // The pace of the events.
            sleep(Duration::from_millis(rng.below(200) as u64));
        }
        let later = end + Duration::from_secs(3_600);
        let resumed = states.into_iter().enumerate().map(|(one, state)| resume(state, one, later, &mut load));
        let instances: Vec<Instance> = resumed
            .map(|state| match state {
                State::Runs(instance) => instance,
                State::Killed { .. } | State::Suspended { .. } => unreachable!("all are due"),
            })
            .collect();
        load.await_answers();
        // One that was suspended for longer than its lease takes its place again.
        let places =
            "SELECT count(*) FROM instance WHERE incarnation > 0 AND lease_until > clock_timestamp()";
        let all = INSTANCES.to_string();
        wait_for("a place of every instance", || {
            (load.queue.rows(server, places) == [all.as_str()]).then_some(())
        });
        eprint!("seed {seed}: ");
        load.finish(server, instances);
    });
}

/// Kills or suspends an instance, or leaves it alone.
fn disrupt(instance: Instance, one: usize, is_long: bool, load: &mut Load, rng: &mut SeededRng) -> State {
    let from = Instant::now();
    let mut up_to = |ms: usize| from + Duration::from_millis(rng.below(ms) as u64);
    let (killed, suspended, long) = (up_to(500), up_to(1_000), up_to(5_000) + LONG_SUSPENSION);
    match rng.below(10) {
        0..4 => {
            instance.kill_nine();
            load.disruptions.push(Disruption { instance: one, from, to: Instant::now() });
            State::Killed { until: killed }
        }
        4..7 => {
            instance.signal(Signal::STOP);
            let until = if is_long && rng.chance(30) { long } else { suspended };
            State::Suspended { instance, from, until }
        }
        _ => State::Runs(instance),
    }
}

/// Starts or resumes an instance if it is due at `now`.
fn resume(state: State, one: usize, now: Instant, load: &mut Load) -> State {
    match state {
        State::Killed { until } if until <= now => State::Runs(load.queue.sites[one].spawn()),
        State::Suspended { instance, from, until } if until <= now => {
            instance.signal(Signal::CONT);
            load.disruptions.push(Disruption { instance: one, from, to: Instant::now() });
            State::Runs(instance)
        }
        other => other,
    }
}
