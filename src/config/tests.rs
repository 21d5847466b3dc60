//! All layers together. What each part promises is tested beside it.

use anyhow::Result;

use super::{Config, Sources, schema};

fn load(sets: &[&str]) -> Result<Config> {
    Config::load(&Sources { sets: sets.iter().map(|s| (*s).to_owned()).collect(), ..Sources::default() })
}

#[test]
fn nothing_means_queue_and_admin() {
    let config = load(&[]).unwrap();
    assert!(config.admin.is_some());
    #[cfg(feature = "queue")]
    assert_eq!(config.queue, Some(orchestrator_queue::QueueConfig::default()));
}

#[cfg(feature = "queue")]
#[test]
fn sets_are_typed_and_strict() {
    let config = load(&["queue.hold_secs=60", "queue.database=/x/y.db"]).unwrap();
    let queue = config.queue.unwrap();
    assert_eq!((queue.hold_secs, queue.database), (60, "/x/y.db".into()));
    assert!(config.admin.is_none(), "a section that is named runs, others do not");
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

/// The range of every integer is in the schema, so that serde, whose errors have no place, has nothing left to refuse.
#[test]
fn every_key_is_bounded_and_described_and_no_secret() {
    let schema = schema::Schema::of::<Config>();
    let keys = schema.root().keys().flat_map(|section| {
        let rule = schema.root().key(section).unwrap();
        rule.keys().map(move |key| (format!("{section}.{key}"), rule.key(key).unwrap()))
    });
    for (key, rule) in keys {
        let says = |keyword: &str| rule.says(keyword).is_some();
        // A secret belongs into a file of its own: what is in a configuration is printed.
        let secret = ["password", "secret", "token", "credential"].iter().any(|word| key.contains(word));
        assert!(!secret || key.ends_with("_file"), "{key} would hold a secret");
        assert!(says("type") && says("description"), "{key}: {rule:?}");
        assert!(!rule.wants("integer") || (says("minimum") && says("maximum")), "{key}: {rule:?}");
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

/// `tests/configuration.rs` checks that the file has every key; here, that it has their defaults.
#[cfg(all(
    feature = "queue",
    feature = "provenance",
    feature = "ingester",
    feature = "producer",
    feature = "catalog"
))]
#[test]
fn the_commented_configuration_shows_the_defaults() {
    let text = include_str!("../../config/orchestrator.toml");
    // Keys whose default cannot be written.
    let files = [
        "unix_socket",
        "url_file",
        "dsn_file",
        "uri_file",
        "redis_url_file",
        "dump_path",
        "password_file",
        "ca_file",
    ];
    let exchanges = ["content", "directory", "revision", "origin", "location"];
    let unset = |line: &str| {
        line.split_once(" = ").is_some_and(|(key, _)| files.contains(&key) || exchanges.contains(&key))
    };
    let plain = |line: &str| match line.strip_prefix('#') {
        Some(rest) if unset(rest) => String::new(),
        Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    let text: Vec<_> = text.lines().map(plain).collect();
    let mut shown: Config = toml::from_str(&text.join("\n")).unwrap();
    // A stream has no defaults: what is shown of it is an example.
    assert_eq!(shown.ingester[0].stream.drain(..).count(), 1);
    assert_eq!(std::mem::take(&mut shown.ingester[0].name), "eiger-ingester");
    let defaults = Config {
        telemetry: super::TelemetryConfig::default(),
        admin: Some(orchestrator_admin::AdminConfig::default()),
        queue: Some(orchestrator_queue::QueueConfig::default()),
        provenance: Some(orchestrator_provenance::ProvenanceConfig::default()),
        ingester: vec![orchestrator_ingester::IngesterConfig::default()],
        producer: Some(orchestrator_producer::ProducerConfig::default()),
        catalog: vec![orchestrator_catalog::CatalogConfig::default()],
    };
    assert_eq!(shown, defaults);
}
