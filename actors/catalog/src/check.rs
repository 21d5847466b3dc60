//! What a schema cannot say of the sections `[[catalog]]`.

use std::collections::BTreeMap;

use orchestrator_edge::amqp::Broker;
use orchestrator_supervise::ChildSpec;

use crate::{
    MAX_RULES,
    config::{CatalogConfig, RuleConfig},
    edge::http::Place,
    handler_config::Actors,
    path,
    rule::Rule,
};

/// What a schema cannot say of all catalogs. The texts begin with `section.key = value`.
pub fn check(catalogs: &[CatalogConfig], actors: &Actors) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut ids = BTreeMap::new();
    for config in catalogs {
        wrong.extend(of_catalog(config, actors));
        if let Some(other) = ids.insert(ChildSpec::id_of(&config.name), &config.name) {
            wrong.push(format!("catalog.{}.name: it has the same path in the tree as {other}", config.name));
        }
    }
    wrong
}

/// What it cannot say of one; `actors` are those that rows can be handed to.
fn of_catalog(config: &CatalogConfig, actors: &Actors) -> Vec<String> {
    let mut wrong = Vec::new();
    let at = format!("catalog.{}", config.name);
    // Files are looked at when it runs.
    if let Err(error) = Place::new(&config.base, None, &[]) {
        wrong.push(format!("{at}.base = ..: {error}"));
    }
    if let Some(url) = config.amqp.as_ref().filter(|url| orchestrator_edge::has_password(url))
        && !url.contains("//guest:guest@")
    {
        wrong.push(format!(
            "{at}.amqp = ..: it holds a password: put it into a file and name that in amqp_file"
        ));
    }
    let url = config.amqp.as_deref().filter(|url| !url.is_empty() && config.amqp_file.is_none());
    if url.is_some_and(|url| Broker::new(url, "").is_err()) {
        // The text does not repeat it: it may hold a password.
        wrong.push(format!("{at}.amqp = ..: this is no address of a broker: write amqp://HOST:PORT/VHOST, or amqps:// for TLS"));
    }
    if config.rule.len() > MAX_RULES {
        let count = config.rule.len();
        wrong.push(format!("{at}.rule: there are {count} rules, and at most {MAX_RULES} are allowed"));
    }
    let mut ids = BTreeMap::new();
    for rule in &config.rule {
        if let Some(other) = ids.insert(ChildSpec::id_of(&rule.name), &rule.name) {
            let text = "it has the same path in the tree as";
            wrong.push(format!("{at}.rule.{}.name: {text} {other}", rule.name));
        }
        let at = format!("{at}.rule.{}", rule.name);
        wrong.extend(paths(rule).map(|text| format!("{at}.{text}")));
        if let Err(errors) = Rule::new(rule) {
            wrong.extend(errors.into_iter().map(|text| format!("{at}.{text}")));
        }
        let names = actors.keys().map(String::as_str);
        wrong.extend(rule.handler.check(names).into_iter().map(|text| format!("{at}.{text}")));
    }
    wrong
}

/// What is wrong with what stands in paths.
fn paths(rule: &RuleConfig) -> impl Iterator<Item = String> {
    let given = [("query", &rule.query), ("update", &rule.update)];
    let wrong = given.into_iter().filter_map(|(key, path)| {
        let path = path.as_ref()?;
        path::complaint(path).map(|text| format!("{key} = {path}: {text}"))
    });
    let within = [("filter", rule.filter.as_deref()), ("sort", Some(rule.sort.as_str()))];
    wrong.chain(within.into_iter().filter_map(|(key, text)| {
        let text = text?;
        path::complaint(&format!("/{}", text.replace("$now", "")))
            .map(|wrong| format!("{key} = {text}: {wrong}"))
    }))
}
