//! The rules of a catalog as children: which are wanted, which are there, and what is to be done about the difference. Declared state
//! of the poller, since the children outlive it.

use std::{collections::BTreeMap, sync::Arc};

use orchestrator_supervise::{ChildSpec, Children};
use parking_lot::Mutex;

use crate::{
    config::RuleConfig,
    rule_child::{RuleHandle, RuleMaker},
    service::Service,
    status::RuleStatus,
};

/// The rules of a catalog. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Rules<S> {
    declared: Arc<Mutex<Declared>>,
    pub(crate) children: Children,
    maker: RuleMaker<S>,
}

/// By the rules' names.
#[derive(Debug, Default)]
struct Declared {
    wanted: Vec<RuleConfig>,
    at_work: BTreeMap<String, RuleHandle>,
    /// No rules any more: they finish what they have claimed.
    retiring: BTreeMap<String, RuleHandle>,
    /// The child that is being added.
    arriving: Option<String>,
}

/// The next change of the children.
#[derive(Debug)]
pub(crate) enum Step {
    Add(ChildSpec),
    Remove(String),
}

impl<S: Service + Clone + Send + 'static> Rules<S> {
    /// The rules that there are from the beginning, and their children.
    pub(crate) fn new(
        wanted: &[RuleConfig],
        children: Children,
        maker: RuleMaker<S>,
    ) -> (Self, Vec<ChildSpec>) {
        let mut declared = Declared { wanted: wanted.to_vec(), ..Declared::default() };
        let mut specs = Vec::new();
        for config in wanted {
            let (handle, spec) = maker.make(config);
            declared.at_work.insert(config.name.clone(), handle);
            specs.push(spec);
        }
        (Self { declared: Arc::new(Mutex::new(declared)), children, maker }, specs)
    }

    /// Wants other rules. Those that are as they were go on undisturbed; one that changes finishes what it has claimed while it follows
    /// its new version; one that is gone finishes what it has claimed.
    pub(crate) fn set(&self, wanted: Vec<RuleConfig>) {
        let declared = &mut *self.declared.lock();
        declared.retiring.retain(|_, rule| !rule.assignment.has_ended());
        let gone = |name: &String, _: &mut RuleHandle| !wanted.iter().any(|rule| rule.name == *name);
        for (name, rule) in declared.at_work.extract_if(.., gone) {
            tracing::info!(rule = name, "the rule retires: what it has claimed is finished");
            rule.assignment.change(None);
            declared.retiring.insert(name, rule);
        }
        for config in &wanted {
            let back = declared.retiring.remove(&config.name);
            if let Some(mut rule) = back.filter(|rule| rule.assignment.change(Some(config.clone()))) {
                rule.config = config.clone();
                declared.at_work.insert(config.name.clone(), rule);
            } else if let Some(rule) = declared.at_work.get_mut(&config.name)
                && rule.config != *config
            {
                tracing::info!(rule = config.name, "the rule changes: what it has claimed is finished");
                rule.assignment.change(Some(config.clone()));
                rule.config = config.clone();
            }
        }
        declared.wanted = wanted;
    }

    /// The next child to be added or removed. `is_stopped` tells of a child's id whether an operator has stopped it.
    pub(crate) fn next(&self, is_stopped: impl Fn(&str) -> bool) -> Option<Step> {
        let declared = &mut *self.declared.lock();
        if let Some(name) = declared.arriving.take() {
            // A former incarnation of the poller did not see the end of it.
            declared.at_work.remove(&name);
            return Some(Step::Remove(ChildSpec::id_of(&name)));
        }
        // It cannot finish anything, and has nothing in hand.
        let stopped = declared.retiring.keys().find(|name| is_stopped(&ChildSpec::id_of(name))).cloned();
        if let Some(name) = stopped {
            declared.retiring.remove(&name);
            return Some(Step::Remove(ChildSpec::id_of(&name)));
        }
        let missing = declared.wanted.iter().find(|rule| !declared.at_work.contains_key(&rule.name))?;
        let (handle, spec) = self.maker.make(missing);
        declared.arriving = Some(missing.name.clone());
        declared.at_work.insert(handle.config.name.clone(), handle);
        Some(Step::Add(spec))
    }

    /// The step was carried out, or not.
    pub(crate) fn carried_out(&self, done: bool) {
        let declared = &mut *self.declared.lock();
        if let Some(name) = declared.arriving.take().filter(|_| !done) {
            declared.at_work.remove(&name);
            declared.retiring.remove(&name);
        }
    }

    /// Tells all rules to look.
    pub(crate) fn look(&self) {
        self.declared.lock().at_work.values().for_each(|rule| rule.assignment.look());
    }

    /// Tells a rule to look, whatever keeps it from it; false if there is no such rule.
    pub(crate) fn demand_look(&self, name: &str) -> bool {
        let declared = self.declared.lock();
        declared.at_work.get(name).map(|rule| rule.assignment.demand_look()).is_some()
    }

    /// The names of all rules.
    pub(crate) fn names(&self) -> Vec<String> {
        self.declared.lock().at_work.keys().cloned().collect()
    }

    /// The status of each rule.
    pub(crate) fn statuses(&self) -> BTreeMap<String, RuleStatus> {
        let declared = self.declared.lock();
        declared.at_work.iter().map(|(name, rule)| (name.clone(), rule.status.get())).collect()
    }
}
