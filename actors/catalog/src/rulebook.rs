//! Where rules are changed while catalogs run.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use orchestrator_supervise::Recipient;

use crate::{CatalogConfig, messages::SetRules};

/// The way to the poller of each catalog. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Rulebook(Arc<Mutex<BTreeMap<String, Recipient<SetRules>>>>);

impl Rulebook {
    pub(crate) fn learn(&self, catalog: &str, poller: Recipient<SetRules>) {
        self.lock().insert(catalog.to_owned(), poller);
    }

    /// Hands the rules of `config` to its poller. Rules that are as they were go on undisturbed, others finish what they have claimed;
    /// false if there is no such catalog, or it has more to do than it can be told.
    pub fn set(&self, config: &CatalogConfig) -> bool {
        let poller = self.lock().get(&config.name).cloned();
        poller.is_some_and(|poller| poller.tell(SetRules { rules: config.rule.clone() }).is_ok())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Recipient<SetRules>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
