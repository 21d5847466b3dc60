//! The way to the pollers of all catalogs, whose rules are changed while they run.

use std::collections::BTreeMap;

use orchestrator_supervise::Mailbox;

use crate::{CatalogConfig, edge::http::HttpCatalog, messages::SetRules, poller::CatalogPoller};

type Poller = Mailbox<CatalogPoller<HttpCatalog>>;

/// The poller of each catalog, by the catalog's name.
#[derive(Debug, Clone, Default)]
pub struct Rulebook(BTreeMap<String, Poller>);

impl Rulebook {
    pub(crate) fn learn(&mut self, catalog: &str, poller: Poller) {
        self.0.insert(catalog.to_owned(), poller);
    }

    /// Hands other rules to catalogs that are as they were in all else, and returns the keys. `running` then has them.
    pub(crate) fn take_over(&self, running: &mut [CatalogConfig], fresh: &[CatalogConfig]) -> Vec<String> {
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

    /// Hands the rules of `config` to its poller. Rules that are as they were go on undisturbed, others finish what they have claimed;
    /// false if there is no such catalog, or it has more to do than it can be told.
    pub fn set(&self, config: &CatalogConfig) -> bool {
        let rules = config.rule.clone();
        self.0.get(&config.name).is_some_and(|poller| poller.tell(SetRules { rules }).is_ok())
    }
}
