//! Tests of the whole configuration. The parts have tests of their own.

#[cfg(feature = "catalog")]
mod catalog;
#[cfg(all(
    feature = "queue",
    feature = "provenance",
    feature = "ingester",
    feature = "producer",
    feature = "catalog"
))]
mod defaults;
#[cfg(all(
    feature = "queue",
    feature = "provenance",
    feature = "ingester",
    feature = "producer",
    feature = "catalog"
))]
mod mutations;
#[cfg(all(
    feature = "queue",
    feature = "provenance",
    feature = "ingester",
    feature = "producer",
    feature = "catalog"
))]
mod secrets;

use anyhow::Result;
use orchestrator_admin::Binding;

use super::{Config, Sources, schema};
#[cfg(feature = "queue")]
use crate::subsystems::Section;

fn load(sets: &[&str]) -> Result<Config> {
    Config::load(&Sources { sets: sets.iter().map(|s| (*s).to_owned()).collect(), ..Sources::default() })
}

#[cfg(feature = "queue")]
#[test]
fn a_configuration_without_subsystems_runs_the_queue() {
    for sets in [&[][..], &["telemetry.filter=warn"], &["admin.listen="]] {
        let config = load(sets).unwrap();
        let sections: Vec<_> = config.sections.iter().map(|section| section.name()).collect();
        assert_eq!(sections, ["queue"], "{sets:?}");
        assert_eq!(config.sections[0], Section::Queue(Default::default()));
    }
}

/// An address that nobody configured may be in use by another program.
#[test]
fn the_endpoint_listens_unless_its_address_is_empty() {
    let default = orchestrator_admin::AdminConfig::DEFAULT_LISTEN;
    for (set, listen, binding) in [
        ("telemetry.filter=warn", default, Binding::DefaultPort),
        ("admin.chaos=true", default, Binding::DefaultPort),
        ("admin.listen=127.0.0.1:7117", default, Binding::Required),
        ("admin.listen=", "", Binding::Required),
    ] {
        let config = load(&[set]).unwrap();
        assert_eq!((config.program.admin.listen.as_str(), config.admin_binding), (listen, binding), "{set}");
    }
}

#[cfg(feature = "queue")]
#[test]
fn sets_are_typed_and_strict() {
    let config = load(&["queue.hold_secs=60", "queue.database=/x/y.db"]).unwrap();
    let Section::Queue(queue) = &config.sections[0] else { panic!("{config:?}") };
    assert_eq!((queue.hold_secs, queue.database.as_path()), (60, "/x/y.db".as_ref()));
    for bad in [
        "queue.hold_secs=1.9",
        "queue.hold_secs=\"60\"",
        "queue.redeliver_after_lease=yes",
        "queue.hold=1",
        "nonsense.a=1",
        "queue",
    ] {
        assert!(load(&[bad]).is_err(), "{bad} was accepted");
    }
}

#[cfg(not(feature = "queue"))]
#[test]
fn a_section_that_is_not_compiled_in_is_refused_with_the_name_of_its_feature() {
    for set in ["queue.hold_secs=60", "queue={}"] {
        let error = load(&[set]).unwrap_err().to_string();
        assert!(
            error
                .ends_with("queue: this build does not include the subsystem; rebuild with --features queue"),
            "{error}"
        );
    }
    let environment = vec![("ORCHESTRATOR__QUEUE__HOLD_SECS".into(), "60".into())];
    let error = Config::load(&Sources { environment, ..Sources::default() }).unwrap_err().to_string();
    assert!(error.contains("environment ORCHESTRATOR__QUEUE__HOLD_SECS: queue: this build"), "{error}");
}

/// The schema has the range of every number, since errors of serde have no position. Secrets belong in
/// separate files, since the configuration is printed. The only exception is `catalog.token`.
#[test]
fn every_key_has_a_description_and_bounds_and_only_one_is_a_secret() {
    let schema = schema::Schema::whole();
    let mut all = Vec::new();
    collect_keys("", schema.root(), &mut all);
    let secret =
        |key: &str| orchestrator_subsystem::redaction::is_secret_name(key.rsplit('.').next().unwrap());
    let secrets: Vec<_> = all.iter().filter(|(key, _)| secret(key)).collect();
    assert!(
        secrets.iter().all(|(_, rule)| rule.value_format() == Some(schema::ValueFormat::Secret)),
        "{secrets:?}"
    );
    let secrets: Vec<_> = secrets.iter().map(|(key, _)| key.as_str()).collect();
    #[cfg(feature = "catalog")]
    assert_eq!(secrets, ["catalog.token"]);
    #[cfg(not(feature = "catalog"))]
    assert_eq!(secrets, [""; 0]);
    for (key, rule) in all {
        let has = |keyword: &str| rule.keyword(keyword).is_some();
        assert!(rule.kind().is_some() && has("description"), "{key}: {rule:?}");
        assert!(!rule.has_type("integer") || (has("minimum") && has("maximum")), "{key}: {rule:?}");
        assert!(!rule.has_type("number") || (has("minimum") && has("maximum")), "{key}: {rule:?}");
    }
}

/// Collects the keys of all sections, including those of entries and nested tables.
fn collect_keys<'a>(path: &str, rule: schema::Rule<'a>, all: &mut Vec<(String, schema::Rule<'a>)>) {
    for key in rule.keys() {
        let rule = rule.key(key).unwrap();
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        if path.contains('.') {
            all.push((path.clone(), rule));
        }
        collect_keys(&path, rule.named_item().unwrap_or(rule), all);
    }
}

#[test]
fn an_unknown_key_is_reported_with_file_and_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[telemetry]\nfilter = \"info\"\nformt = \"json\"\n").unwrap();
    let sources = Sources { files: vec![file.path().to_owned()], ..Sources::default() };
    let error = format!("{:#}", Config::load(&sources).unwrap_err());
    assert!(error.contains("formt") && error.contains(":3: "), "{error}");
    assert!(error.contains(&file.path().display().to_string()), "{error}");
}
