//! Upgrades of running instances, with the program of a former commit.

use std::{path::PathBuf, time::Instant};

use orchestrator_harness::{
    Instance, Postgres, TestEnv, former_program,
    load::{Disruption, SeededRng},
};

use super::{Load, SharedQueue};

/// Program before functions had schemas of their own.
const FORMER: &str = "dbb118a5";

#[test]
fn three_instances_are_upgraded_one_by_one_and_back_under_load() {
    there_and_back("rolling", |instance| assert!(instance.terminate().success(), "it did not stop well"));
}

#[test]
fn three_instances_that_are_killed_are_upgraded_one_by_one_and_back_under_load() {
    there_and_back("rolling_kills", Instance::kill_nine);
}

/// Replaces each instance by today's program, and then by the former one. `end` ends an instance.
fn there_and_back(database: &str, end: fn(Instance)) {
    let server = Postgres::shared();
    let former = former_program(FORMER);
    let mut queue = SharedQueue::new(server, database, 3);
    let current = queue.sites[0].binary().to_owned();
    queue.sites.iter_mut().for_each(|site| site.set_binary(&former));
    let mut instances = queue.start();
    let mut load = Load::start(queue, &mut SeededRng::new(22));
    load.await_answers();
    for program in [&current, &former] {
        for one in 0..instances.len() {
            replace(&mut load, &mut instances, one, program, end);
        }
    }
    load.finish(server, instances);
}

/// Ends an instance and starts it as another program.
fn replace(load: &mut Load, instances: &mut Vec<Instance>, one: usize, program: &PathBuf, end: fn(Instance)) {
    let from = Instant::now();
    end(instances.remove(one));
    load.disruptions.push(Disruption { instance: one, from, to: Instant::now() });
    let site: &mut TestEnv = &mut load.queue.sites[one];
    site.set_binary(program);
    instances.insert(one, site.spawn());
    load.await_recovery(&format!("instance {one} as {}", program.display()));
}
