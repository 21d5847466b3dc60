//! Replacement of rules while the process runs.

use std::collections::BTreeMap;

use orchestrator_supervise::Mailbox;

use crate::{CatalogConfig, edge::http::HttpCatalog, messages::SetRules, poller::CatalogPoller};

type Poller = Mailbox<CatalogPoller<HttpCatalog>>;

/// The poller of each catalog, by the catalog's name.
#[derive(Debug, Clone, Default)]
pub struct RuleReloader(BTreeMap<String, Poller>);

impl RuleReloader {
    pub(crate) fn register(&mut self, catalog: &str, poller: Poller) {
        self.0.insert(catalog.to_owned(), poller);
    }

    /// Replaces the rules of catalogs whose other keys are unchanged, updates `running`, and
    /// returns the changed keys.
    pub(crate) fn reload(&self, running: &mut [CatalogConfig], fresh: &[CatalogConfig]) -> Vec<String> {
        let mut taken = Vec::new();
        for running in running {
            let Some(wanted) = fresh.iter().find(|wanted| wanted.name == running.name) else { continue };
            let with_its_rules = CatalogConfig { rule: wanted.rule.clone(), ..running.clone() };
            if *wanted == with_its_rules && *wanted != *running && self.set(wanted) {
                taken.push(format!("catalog.{}.rule", wanted.name));
                *running = with_its_rules;
            }
        }
        taken
    }

    /// Sends the rules of `config` to the catalog's poller. Returns false if there is no such
    /// catalog, or the poller's mailbox is full.
    pub fn set(&self, config: &CatalogConfig) -> bool {
        let rules = config.rule.clone();
        self.0.get(&config.name).is_some_and(|poller| poller.tell(SetRules { rules }).is_ok())
    }
}
