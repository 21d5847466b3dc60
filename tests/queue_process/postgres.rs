//! Instances of the real binary that share a queue in a PostgreSQL database: workers on each socket, files in
//! each input directory, faults of the server and of the instances.

mod adoption;
mod alone;
mod causes;
mod failover;
mod histories;
mod in_full;
mod inputs;
mod migration;
mod old_server;
mod places;
mod pooler;
mod shared;
mod tools;
mod upgrade;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Instance, Postgres, TestEnv, eventually,
    load::{Disruption, Fetchers, LoadRecord, SeededRng, WorkerPool},
    wait_for,
};

use crate::site;

/// Longest time from the end of an outage to the next answer.
const RECOVERY_MAX: Duration = Duration::from_secs(5);
/// Time from the last renewal of a lease until another instance ends it, at most.
const LEASE: Duration = Duration::from_secs(15 + 3);

/// Environments of instances that share one queue.
struct SharedQueue {
    dsn: String,
    sites: Vec<TestEnv>,
}

impl SharedQueue {
    /// Creates a database, and `count` environments that use it. None of them runs.
    fn new(server: &Postgres, database: &str, count: usize) -> Self {
        let dsn = server.create_database(database);
        let one = |_| site().set("queue.store=postgres").set(&format!("queue.postgres.dsn={dsn}"));
        let sites = (0..count).map(one).collect();
        Self { dsn, sites }
    }

    /// Names the instances `left` and `right`.
    fn named(mut self) -> Self {
        let names = ["left", "right"].map(|name| format!("queue.postgres.instance={name}"));
        self.sites = self.sites.into_iter().zip(names).map(|(site, name)| site.set(&name)).collect();
        self
    }

    /// Adds an assignment to every environment.
    fn set(mut self, assignment: &str) -> Self {
        self.sites = self.sites.into_iter().map(|site| site.set(assignment)).collect();
        self
    }

    /// Rows of a query in the queue's schema: columns joined by `|`.
    fn rows(&self, server: &Postgres, sql: &str) -> Vec<String> {
        let text = server.script(&self.dsn, &format!("SET search_path = orchestrator_queue; {sql}"));
        text.lines().map(str::to_owned).collect()
    }

    /// Statement that selects the functions of the program that was started last, and the tables.
    fn functions(&self, server: &Postgres) -> String {
        let last = self.rows(server, "SELECT name FROM function_schema ORDER BY used DESC LIMIT 1");
        format!("SET search_path = {}, orchestrator_queue", last.concat())
    }

    /// Starts every instance and waits until it uses the database.
    fn start(&self) -> Vec<Instance> {
        let instances = self.sites.iter().map(TestEnv::start).collect();
        self.sites.iter().for_each(|site| await_up(site, "queue/queue_store"));
        instances
    }

    fn sockets(&self) -> Vec<PathBuf> {
        self.sites.iter().map(TestEnv::socket).collect()
    }

    fn input_dirs(&self) -> Vec<PathBuf> {
        self.sites.iter().map(TestEnv::input_dir).collect()
    }
}

/// Fetchers and workers on all instances of a queue.
struct Load {
    queue: SharedQueue,
    fetchers: Fetchers,
    pool: WorkerPool,
    disruptions: Vec<Disruption>,
}

impl Load {
    /// Starts a fetcher and three workers for each instance.
    fn start(queue: SharedQueue, rng: &mut SeededRng) -> Self {
        let count = queue.sites.len();
        let fetchers = Fetchers::start(&queue.input_dirs(), count, rng);
        let pool = WorkerPool::start(&queue.sockets(), 3 * count, rng);
        Self { queue, fetchers, pool, disruptions: Vec::new() }
    }

    /// Waits until the workers of each instance have got two answers from now on: the first may have been on
    /// its way. Returns the time that it took.
    fn await_answers(&self) -> Duration {
        let (began, before) = (Instant::now(), self.pool.answers());
        wait_for("answers of every instance", || {
            let now = self.pool.answers();
            before.iter().zip(now).all(|(before, now)| now >= before + 2).then_some(())
        });
        began.elapsed()
    }

    /// Waits for answers after an outage that ended just now.
    ///
    /// # Panics
    /// If they take too long.
    fn await_recovery(&self, outage: &str) {
        self.await_recovery_within(RECOVERY_MAX, outage);
    }

    fn await_recovery_within(&self, most: Duration, outage: &str) {
        let took = self.await_answers();
        eprintln!("{outage}: answers after {took:?}");
        let logs = || self.queue.sites.iter().map(TestEnv::log).collect::<Vec<_>>().join("\n---\n");
        assert!(took < most, "{outage}: the first answers took {took:?}; logs:\n{}", logs());
        for site in &self.queue.sites {
            await_up(site, "queue/queue_store");
            await_up(site, "queue/lease");
        }
    }

    /// Ends the fetchers, drains the queue, checks what workers and files have seen, and stops the instances.
    /// Returns the number of redelivered jobs.
    fn finish(self, server: &Postgres, instances: Vec<Instance>) -> usize {
        let Self { queue, fetchers, pool, disruptions } = self;
        let rows = |sql: &str| queue.rows(server, sql);
        let (present, ever) = fetchers.stop();
        LoadRecord::await_ingest(rows, &present);
        let seen = pool.drain();
        let (handouts, longest) = (seen.handouts.len(), seen.longest_wait);
        let record = LoadRecord { present, ever, seen, disruptions };
        let redelivered = record.check(rows);
        assert_eq!(rows("SELECT count(*) FROM in_flight WHERE is_held"), ["0"], "a job is left in flight");
        eprintln!(
            "{handouts} jobs, {redelivered} redelivered, {} disruptions, longest wait {longest:?}",
            record.disruptions.len()
        );
        stop(instances);
        redelivered
    }
}

fn await_up(site: &TestEnv, child: &str) {
    eventually("the link to be up", || site.link(child).state == "up");
}

/// Asks each instance to stop.
///
/// # Panics
/// If one fails.
fn stop(instances: Vec<Instance>) {
    for instance in instances {
        assert!(instance.terminate().success(), "an instance did not stop well");
    }
}
