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

/// The range of every integer is in the schema, so that serde, whose errors have no place, has nothing left to refuse. And a
/// secret belongs into a file of its own: what is in a configuration is printed. One key is the exception, and is not.
#[test]
fn every_key_is_bounded_and_described_and_no_secret() {
    let schema = schema::Schema::of::<Config>();
    let mut all = Vec::new();
    gather("", schema.root(), &mut all);
    let secret = |key: &str| crate::redaction::names_secret(key.rsplit('.').next().unwrap());
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

/// Is `line`, below the heading `section`, a key whose default cannot be written, or an example that has none?
#[cfg(all(
    feature = "queue",
    feature = "provenance",
    feature = "ingester",
    feature = "producer",
    feature = "catalog"
))]
fn is_unset(section: &str, line: &str) -> bool {
    const ANYWHERE: [&str; 8] = [
        "unix_socket",
        "url_file",
        "dsn_file",
        "uri_file",
        "redis_url_file",
        "dump_path",
        "password_file",
        "ca_file",
    ];
    const EXCHANGES: [&str; 5] = ["content", "directory", "revision", "origin", "location"];
    const CATALOG: [&str; 5] = ["credential_file", "token_file", "token", "amqp", "amqp_file"];
    const RULE: [&str; 7] =
        ["table", "filter", "query", "update", "lease_secs", "attempts_column", "max_attempts"];
    const HANDLER: [&str; 8] = ["argv", "cwd", "env", "env_pass", "url", "headers", "headers_file", "actor"];
    let Some((key, _)) = line.split_once(" = ") else { return line == "[catalog.rule.plan]" };
    let here: &[&str] = match section.trim_matches(['[', ']']) {
        "provenance.exchange_ranges" => &EXCHANGES,
        "catalog" => &CATALOG,
        "catalog.rule" => &RULE,
        "catalog.rule.handler" => &HANDLER,
        "catalog.rule.plan"
        | "catalog.rule.claim.set"
        | "catalog.rule.done"
        | "catalog.rule.fail"
        | "catalog.rule.dead" => return true,
        _ => &[],
    };
    ANYWHERE.contains(&key) || here.contains(&key)
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
    let mut section = "";
    let mut text = String::new();
    for line in include_str!("../../config/orchestrator.toml").lines() {
        let plain = line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line);
        section = if plain.starts_with('[') { plain } else { section };
        if !is_unset(section, plain) {
            text.push_str(&format!("{plain}\n"));
        }
    }
    let mut shown: Config = toml::from_str(&text).unwrap();
    // A stream and a rule have no defaults as a whole: what is shown of them is an example.
    assert_eq!(shown.ingester[0].stream.drain(..).count(), 1);
    assert_eq!(std::mem::take(&mut shown.ingester[0].name), "eiger-ingester");
    let rules = std::mem::take(&mut shown.catalog[0].rule);
    let rule = orchestrator_catalog::RuleConfig { name: "convert".to_owned(), ..Default::default() };
    assert_eq!(rules, [rule]);
    assert_eq!(std::mem::take(&mut shown.catalog[0].name), "lab");
    assert!(std::mem::take(&mut shown.catalog[0].base).ends_with("/ermrest/catalog/1"));
    let defaults = Config {
        telemetry: super::TelemetryConfig::default(),
        links: super::LinksConfig::default(),
        admin: Some(orchestrator_admin::AdminConfig::default()),
        queue: Some(orchestrator_queue::QueueConfig::default()),
        provenance: Some(orchestrator_provenance::ProvenanceConfig::default()),
        ingester: vec![orchestrator_ingester::IngesterConfig::default()],
        producer: Some(orchestrator_producer::ProducerConfig::default()),
        catalog: vec![orchestrator_catalog::CatalogConfig::default()],
    };
    assert_eq!(shown, defaults);
}
