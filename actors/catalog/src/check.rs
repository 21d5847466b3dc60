//! Checks of the sections `[[catalog]]` beyond the schema.

use std::collections::BTreeMap;

use orchestrator_catalog_rules::{path, rule::Rule};
use orchestrator_edge::amqp::Broker;
use orchestrator_subsystem::Address;
use orchestrator_supervise::ChildSpec;

use crate::{
    MAX_RULES,
    config::{CatalogConfig, RuleConfig},
    edge::http::CatalogEndpoint,
    notify_agent,
};

/// Returns every problem of the configuration that the schema cannot express. Each text begins with
/// `section.key = value`.
pub fn check(catalogs: &[CatalogConfig]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut ids = BTreeMap::new();
    for config in catalogs {
        problems.extend(of_catalog(config));
        if let Some(other) = ids.insert(ChildSpec::id_of(&config.name), &config.name) {
            problems
                .push(format!("catalog.{}.name: it has the same path in the tree as {other}", config.name));
        }
    }
    problems
}

fn of_catalog(config: &CatalogConfig) -> Vec<String> {
    let mut problems = Vec::new();
    let at = format!("catalog.{}", config.name);
    // Files are read when the catalog starts.
    if let Err(error) = CatalogEndpoint::new(&config.base, None, &[]) {
        problems.push(format!("{at}.base = ..: {error}"));
    }
    let amqp = config.amqp.as_ref().map(Address::expose);
    let url = amqp.filter(|url| !url.is_empty() && config.amqp_file.is_none());
    if let Some(Err(error)) = url.map(|url| Broker::new(url, "")) {
        problems.push(format!("{at}.amqp = ..: {error}"));
    }
    if config.rule.len() > MAX_RULES {
        let count = config.rule.len();
        problems.push(format!("{at}.rule: there are {count} rules, and at most {MAX_RULES} are allowed"));
    }
    let mut ids = BTreeMap::new();
    for rule in &config.rule {
        if let Some(other) = ids.insert(ChildSpec::id_of(&rule.name), &rule.name) {
            let text = "it has the same path in the tree as";
            problems.push(format!("{at}.rule.{}.name: {text} {other}", rule.name));
        }
        let at = format!("{at}.rule.{}", rule.name);
        problems.extend(paths(rule).map(|text| format!("{at}.{text}")));
        let errors = match rule.notify_only {
            true => notify_agent::problems(rule),
            false => Rule::new(&rule.definition()).err().unwrap_or_default(),
        };
        problems.extend(errors.into_iter().map(|text| format!("{at}.{text}")));
        problems.extend(rule.plan.check().into_iter().map(|text| format!("{at}.{text}")));
        problems.extend(rule.handler.check().into_iter().map(|text| format!("{at}.{text}")));
    }
    problems
}

fn paths(rule: &RuleConfig) -> impl Iterator<Item = String> {
    let given = [("query", &rule.query), ("update", &rule.update)];
    let problems = given.into_iter().filter_map(|(key, path)| {
        let path = path.as_ref()?;
        path::problem(path).map(|text| format!("{key} = {path}: {text}"))
    });
    let within = [("filter", rule.filter.as_deref()), ("sort", Some(rule.sort.as_str()))];
    problems.chain(within.into_iter().filter_map(|(key, text)| {
        let text = text?;
        path::problem(&format!("/{}", text.replace("$now", "")))
            .map(|problems| format!("{key} = {text}: {problems}"))
    }))
}
