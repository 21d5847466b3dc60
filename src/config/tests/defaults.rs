//! Comparison of config/orchestrator.toml with the code: it has every key, with the default.

use std::collections::BTreeSet;

use orchestrator_ingester::OnFinished;

use super::{
    super::{Config, schema::Schema},
    collect_keys,
};
use crate::subsystems::Section;

/// True if `line`, below the header `section`, is an example: a key without a default, or with one that TOML
/// cannot express.
fn is_unset(section: &str, line: &str) -> bool {
    const ANYWHERE: [&str; 17] = [
        "unix_socket",
        "unix_socket_owner",
        "unix_socket_group",
        "socket_mode",
        "socket_owner",
        "socket_group",
        "history_dir",
        "memory_budget",
        "url_file",
        "dsn_file",
        "uri_file",
        "redis_url_file",
        "redis_ca_file",
        "dump_path",
        "password_file",
        "ca_file",
        "topology",
    ];
    const EXCHANGES: [&str; 5] = ["content", "directory", "revision", "origin", "location"];
    const LIMIT: [&str; 2] = ["match", "fetcher"];
    const QUEUE_POSTGRES: [&str; 1] = ["instance"];
    const INGESTER: [&str; 2] = ["env", "env_pass"];
    const CATALOG: [&str; 5] = ["credential_file", "token_file", "token", "amqp", "amqp_file"];
    const RULE: [&str; 8] = [
        "table",
        "filter",
        "query",
        "update",
        "lease_secs",
        "attempts_column",
        "max_attempts",
        "expect_every",
    ];
    const STREAM: [&str; 1] = ["expect_every"];
    const HANDLER: [&str; 9] =
        ["argv", "cwd", "env", "env_pass", "url", "headers", "headers_file", "attr_path", "payload"];
    const PLAN: [&str; 5] = ["argv", "columns", "cwd", "env", "env_pass"];
    const PRODUCER: [&str; 3] = ["queues", "job_types", "custom"];
    const ON_COMPLETE: [&str; 3] = ["argv", "url", "headers_file"];
    const HOOK: [&str; 3] = ["argv", "url", "headers_file"];
    let Some((key, _)) = line.split_once(" = ") else { return false };
    let here: &[&str] = match section.trim_matches(['[', ']']) {
        "provenance.exchange_ranges" => &EXCHANGES,
        "producer" => &PRODUCER,
        "producer.on_complete" => &ON_COMPLETE,
        "hook" => &HOOK,
        "queue.limit" => &LIMIT,
        "queue.postgres" => &QUEUE_POSTGRES,
        "ingester" => &INGESTER,
        "ingester.stream" => &STREAM,
        "catalog" => &CATALOG,
        "catalog.rule" => &RULE,
        "catalog.rule.handler" => &HANDLER,
        "catalog.rule.plan" => &PLAN,
        "catalog.rule.claim.set" | "catalog.rule.done" | "catalog.rule.fail" | "catalog.rule.dead" => {
            return true;
        }
        _ => &[],
    };
    ANYWHERE.contains(&key) || here.contains(&key)
}

/// Lines of the commented configuration with each key uncommented. A key has no space after `#`.
fn uncommented() -> impl Iterator<Item = &'static str> {
    let lines = include_str!("../../../config/orchestrator.toml").lines();
    lines.map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
}

#[test]
fn the_commented_configuration_has_every_key() {
    let columns = |key: &str| {
        let tables = ["claim.set", "done", "fail", "dead"];
        tables.iter().any(|table| key.starts_with(&format!("catalog.rule.{table}.")))
    };
    let (mut section, mut written) = (String::new(), BTreeSet::new());
    for line in uncommented().filter(|line| !line.starts_with('#')) {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_owned();
            written.insert(section.clone());
        } else if let Some((key, _)) = line.split_once(" = ") {
            written.insert(format!("{section}.{key}"));
        }
    }
    let schema = Schema::whole();
    let mut all = Vec::new();
    collect_keys("", schema.root(), &mut all);
    let known: BTreeSet<_> = all.into_iter().map(|(key, _)| key).collect();
    let missing: Vec<_> = known.difference(&written).filter(|key| !has_keys_below(key, &written)).collect();
    assert!(missing.is_empty(), "not in config/orchestrator.toml: {missing:?}");
    // Limits and expected fetchers have no names, so their keys have no paths. tests/configuration/shipped.rs
    // compares them with the schema.
    let is_path = |key: &&String| {
        key.contains('.')
            && !columns(key)
            && !key.starts_with("queue.limit.")
            && !key.starts_with("queue.expect.")
    };
    let unknown: Vec<_> = written.difference(&known).filter(is_path).collect();
    assert!(unknown.is_empty(), "in config/orchestrator.toml, but not in the schema: {unknown:?}");
}

/// True if the file has keys or tables below the table `key`.
fn has_keys_below(key: &str, written: &BTreeSet<String>) -> bool {
    written.iter().any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

#[test]
fn the_commented_configuration_shows_the_defaults() {
    let mut section = "";
    let mut text = String::new();
    for plain in uncommented() {
        section = if plain.starts_with('[') { plain } else { section };
        if !is_unset(section, plain) {
            text.push_str(&format!("{plain}\n"));
        }
    }
    let shown: serde_json::Value = toml::from_str(&text).unwrap();
    let mut shown = Config::from_json(shown).unwrap();
    let section = |shown: &Config, name: &str| {
        let section = shown.sections.iter().position(|section| section.name() == name);
        section.expect("the file has the section")
    };
    // A hook, a limit, an expected fetcher, a stream and a rule have no defaults; the file shows examples.
    let hooks = std::mem::take(&mut shown.program.hook);
    assert_eq!(hooks, [orchestrator_hooks::HookConfig { name: "failures".to_owned(), ..Default::default() }]);
    let at = section(&shown, "queue");
    let Section::Queue(queue) = &mut shown.sections[at] else { panic!("another section") };
    assert_eq!(queue.limit.drain(..).map(|limit| limit.in_flight).collect::<Vec<_>>(), [2]);
    assert_eq!(queue.expect.drain(..).map(|expected| expected.fetcher).collect::<Vec<_>>(), ["github"]);
    let at = section(&shown, "ingester");
    let Section::Ingester(ingesters) = &mut shown.sections[at] else { panic!("another section") };
    assert_eq!(ingesters[0].stream.drain(..).count(), 1);
    assert_eq!(ingesters[0].on_finished.take(), Some(OnFinished::default()));
    assert_eq!(std::mem::take(&mut ingesters[0].name), "eiger-ingester");
    let at = section(&shown, "catalog");
    let Section::Catalog(catalogs) = &mut shown.sections[at] else { panic!("another section") };
    let rules = std::mem::take(&mut catalogs[0].rule);
    let rule = orchestrator_catalog::RuleConfig { name: "convert".to_owned(), ..Default::default() };
    assert_eq!(rules, [rule]);
    assert_eq!(std::mem::take(&mut catalogs[0].name), "lab");
    assert!(std::mem::take(&mut catalogs[0].base).ends_with("/ermrest/catalog/1"));
    let defaults = Config {
        sections: vec![
            Section::Queue(Default::default()),
            Section::Provenance(Default::default()),
            Section::Ingester(vec![Default::default()]),
            Section::Producer(Default::default()),
            Section::Catalog(vec![Default::default()]),
        ],
        ..Config::default()
    };
    assert_eq!(shown, defaults);
}
