//! All layers together. What each part promises is tested beside it.

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

use super::{Config, Sources, schema};

fn load(sets: &[&str]) -> Result<Config> {
    Config::load(&Sources { sets: sets.iter().map(|s| (*s).to_owned()).collect(), ..Sources::default() })
}

#[test]
fn nothing_means_queue_and_admin() {
    let config = load(&[]).unwrap();
    assert!(config.program.admin.is_some());
    #[cfg(feature = "queue")]
    assert_eq!(config.sections[0].get::<orchestrator_queue::Queue>(), Some(&Default::default()));
}

#[cfg(feature = "queue")]
#[test]
fn sets_are_typed_and_strict() {
    let config = load(&["queue.hold_secs=60", "queue.database=/x/y.db"]).unwrap();
    let queue = config.sections[0].get::<orchestrator_queue::Queue>().unwrap();
    assert_eq!((queue.hold_secs, queue.database.as_path()), (60, "/x/y.db".as_ref()));
    assert!(config.program.admin.is_none(), "a section that is named runs, others do not");
    for bad in [
        "queue.hold_secs=1.9",
        "queue.hold_secs=\"60\"",
        "queue.redeliver_after_lease=yes",
        "queue.hold=1",
        "nonsense.a=1",
        "queue",
    ] {
        assert!(load(&[bad]).is_err(), "{bad} was taken");
    }
}

#[cfg(not(feature = "queue"))]
#[test]
fn a_section_that_is_not_compiled_in_is_refused_with_its_feature() {
    for set in ["queue.hold_secs=60", "queue={}"] {
        let error = load(&[set]).unwrap_err().to_string();
        assert!(
            error.ends_with("queue: this build leaves that subsystem out; rebuild with --features queue"),
            "{error}"
        );
    }
    let environment = vec![("ORCHESTRATOR__QUEUE__HOLD_SECS".into(), "60".into())];
    let error = Config::load(&Sources { environment, ..Sources::default() }).unwrap_err().to_string();
    assert!(error.contains("environment ORCHESTRATOR__QUEUE__HOLD_SECS: queue: this build"), "{error}");
}

/// The range of every integer is in the schema, so that serde, whose errors have no place, has nothing left to refuse. And a
/// secret belongs into a file of its own: what is in a configuration is printed. One key is the exception, and is not.
#[test]
fn every_key_is_bounded_and_described_and_no_secret() {
    let schema = schema::Schema::whole();
    let mut all = Vec::new();
    gather("", schema.root(), &mut all);
    let secret = |key: &str| orchestrator_subsystem::redaction::names_secret(key.rsplit('.').next().unwrap());
    let secrets: Vec<_> = all.iter().filter(|(key, _)| secret(key)).collect();
    assert!(secrets.iter().all(|(_, rule)| rule.mark() == Some(schema::Mark::Secret)), "{secrets:?}");
    let secrets: Vec<_> = secrets.iter().map(|(key, _)| key.as_str()).collect();
    #[cfg(feature = "catalog")]
    assert_eq!(secrets, ["catalog.token"]);
    #[cfg(not(feature = "catalog"))]
    assert_eq!(secrets, [""; 0]);
    for (key, rule) in all {
        let says = |keyword: &str| rule.says(keyword).is_some();
        // The one word that there is for a kind needs none of its own.
        assert!(says("type") && (says("description") || says("const")), "{key}: {rule:?}");
        assert!(!rule.wants("integer") || (says("minimum") && says("maximum")), "{key}: {rule:?}");
        assert!(!rule.wants("number") || (says("minimum") && says("maximum")), "{key}: {rule:?}");
    }
}

/// All keys below the sections, those of entries and inner tables among them.
fn gather<'a>(path: &str, rule: schema::Rule<'a>, all: &mut Vec<(String, schema::Rule<'a>)>) {
    for key in rule.keys() {
        let rule = rule.key(key).unwrap();
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        if path.contains('.') {
            all.push((path.clone(), rule));
        }
        gather(&path, rule.named_item().unwrap_or(rule), all);
    }
}

#[test]
fn an_unknown_key_in_a_file_is_named_with_file_and_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[telemetry]\nfilter = \"info\"\nformt = \"json\"\n").unwrap();
    let sources = Sources { files: vec![file.path().to_owned()], ..Sources::default() };
    let error = format!("{:#}", Config::load(&sources).unwrap_err());
    assert!(error.contains("formt") && error.contains(":3: "), "{error}");
    assert!(error.contains(&file.path().display().to_string()), "{error}");
}
