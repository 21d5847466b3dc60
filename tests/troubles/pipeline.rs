//! Jobs that a subsystem gives to the queue, and nobody works, as in `config/pipeline.toml`: the queue has no
//! fetcher file.

use std::{fs, time::Instant};

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, Instance, Reply, eventually};

use crate::{BINARY, answer::Trouble};

#[test]
fn rows_that_wait_for_a_worker_name_its_socket() {
    const RULE: &str = r#"handler = { kind = "queue", attr_path = "img/$row.id", payload = "$row.state" }"#;
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server).rule(FULL_RULE).rule(RULE);
    let mut command = site.base().command();
    command.arg("--config").arg(site.write());
    let instance = Instance::spawn(command);
    instance.await_service(site.base());
    let works = |branch: &str| site.base().why(branch).contains("nothing holds up work");
    eventually("both branches to be idle", || works("catalog") && works("queue"));
    let begun = Instant::now();
    server.insert_foo(40, "actionable");
    let text = "jobs wait, no worker has asked since the start (0 in flight, limits leave ";
    let trouble = Trouble::began_at(begun, "rows of a catalog are jobs, and no worker runs");
    let passed_on = trouble.shows_first(site.base(), "catalog", "waits for queue/queue_store: ");
    assert!(passed_on.text.contains(text), "{passed_on:?}");
    assert_eq!(passed_on.path, "catalog/lab/rules/work");
    let cause =
        Trouble::began_at(begun, "jobs wait, and no worker runs").shows_first(site.base(), "queue", text);
    assert_eq!(cause.path, "queue/queue_store");
    let help = format!("start workers at {}", site.base().socket().display());
    assert_eq!([cause.help, passed_on.help], [help.clone(), help]);
    // What holds up only the queue's own files does not concern the rows.
    assert!(matches!(site.base().worker().ready(), Reply::Job { .. }));
    fs::rename(site.base().input_dir(), site.base().path().join("away")).expect("move the directory");
    assert_eq!(site.base().first_cause("queue", "input directory is gone").path, "queue/inotify");
    eventually("no cause of the catalog", || site.base().causes("catalog").is_empty());
    assert_eq!(site.base().first_cause("queue", "input directory is gone").path, "queue/inotify");
}
