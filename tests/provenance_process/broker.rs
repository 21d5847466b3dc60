//! Provenance between a real RabbitMQ and a real PostgreSQL: kills and stops of the program, the broker and
//! the database under load.

mod caller;
mod fixture;
mod outages;
mod poison;
mod redeliveries;
mod topologies;

use orchestrator_harness::{Instance, UnitFile, eventually, sha1_of};
use serde_json::{Value, json};

use fixture::Fixture;

const PAGE: &str = include_str!("../../actors/provenance/README.md");
const ROWS: u32 = 20_000;

fn contents() -> impl Iterator<Item = Value> {
    (0..ROWS).map(|number| json!({"add": "content", "id": sha1_of(0, number)}))
}

/// The page's change of the unit, with the original's configuration file. After the stop, broker and database
/// are as the original needs them.
#[test]
fn a_site_moves_and_can_go_back() {
    let fixture = Fixture::new("original", "without-path");
    let home = &fixture.home;
    let env = home.env.base();
    let file = env.path().join("swh.yml");
    let path = file.display().to_string();
    let [_, unit] = UnitFile::before_and_after(PAGE, &[("/etc/softwareheritage/provenance.yml", &path)]);
    let start_with = |text: &str| {
        std::fs::write(&file, text).expect("write a file");
        Instance::spawn(env.command_of_unit(&unit))
    };
    assert_eq!(start_with("provenance: {}\n").wait().code(), Some(78));
    assert!(env.log().contains("Missing 'provenance.rabbitmq' configuration"), "{}", env.log());
    let (url, dsn) = (&home.url, &home.dsn);
    let instance = start_with(&format!(
        "provenance:\n  rabbitmq:\n    url: {url}\n    storage_config: {{cls: postgresql, db: '{dsn}'}}\n"
    ));
    eventually("the endpoint to answer", || env.cli(&["tree"]).0 == 0);
    home.serving();
    home.env.ask(&["import", &home.env.file(contents())]);
    assert_eq!(home.env.count("content"), u64::from(ROWS));
    assert!(instance.terminate().success(), "{}", env.log());
    fixture.emptied();
}
