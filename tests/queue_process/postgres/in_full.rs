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
    let server = Postgres::shared();
    let former = former_program(FORMER);
    let mut queue = SharedQueue::new(server, "rolling", 3);
    let current = queue.sites[0].binary().to_owned();
    queue.sites.iter_mut().for_each(|site| site.set_binary(&former));
    let mut instances = queue.start();
    let mut load = Load::start(queue, &mut SeededRng::new(22));
    load.await_answers();
    for program in [&current, &former] {
        for one in 0..instances.len() {
            replace(&mut load, &mut instances, one, program);
        }
    }
    load.finish(server, instances);
}

/// Stops an instance and starts it as another program.
fn replace(load: &mut Load, instances: &mut Vec<Instance>, one: usize, program: &PathBuf) {
    let from = Instant::now();
    assert!(instances.remove(one).terminate().success(), "an instance did not stop well");
    load.disruptions.push(Disruption { instance: one, from, to: Instant::now() });
    let site: &mut TestEnv = &mut load.queue.sites[one];
    site.set_binary(program);
    instances.insert(one, site.spawn());
    load.await_recovery(&format!("instance {one} as {}", program.display()));
}
