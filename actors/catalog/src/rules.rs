//! The rules of a catalog as children: the wanted ones, the running ones, and the steps between
//! them. The children outlive the poller, and so does this state.

use std::{collections::BTreeMap, sync::Arc};

use orchestrator_supervise::{ChildSpec, Children};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{
    config::RuleConfig,
    row_question::RuleView,
    rule_child::{RuleChildFactory, RuleHandle},
    service::Service,
    status::RuleStatus,
};

/// The rules of a catalog. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Rules<S> {
    set: Arc<Mutex<RuleSet>>,
    pub(crate) children: Children,
    factory: RuleChildFactory<S>,
}

/// Rules by name.
#[derive(Debug, Default)]
struct RuleSet {
    wanted: Vec<RuleConfig>,
    active: BTreeMap<String, RuleHandle>,
    /// Removed rules that finish their claimed rows.
    retiring: BTreeMap<String, RuleHandle>,
    /// Name of the child that is being added.
    being_added: Option<String>,
}

/// A question to the agents of a rule.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) config: RuleConfig,
    /// Text of the key.
    pub(crate) key: String,
    /// One for each agent, see [`Assignment::ask`](crate::assignment::Assignment::ask).
    pub(crate) answers: mpsc::UnboundedReceiver<RuleView>,
}

/// Next change of the children.
#[derive(Debug)]
pub(crate) enum Step {
    Add(Box<ChildSpec>),
    Remove(String),
}

impl<S: Service + Clone + Send + 'static> Rules<S> {
    pub(crate) fn new(
        wanted: &[RuleConfig],
        children: Children,
        factory: RuleChildFactory<S>,
    ) -> (Self, Vec<ChildSpec>) {
        let mut set = RuleSet { wanted: wanted.to_vec(), ..RuleSet::default() };
        let mut specs = Vec::new();
        for config in wanted {
            let (handle, spec) = factory.create(config);
            set.active.insert(config.name.clone(), handle);
            specs.push(spec);
        }
        (Self { set: Arc::new(Mutex::new(set)), children, factory }, specs)
    }

    /// Replaces the rules. Unchanged rules continue; changed and removed ones finish their claimed
    /// rows.
    pub(crate) fn replace(&self, wanted: Vec<RuleConfig>) {
        let set = &mut *self.set.lock();
        set.retiring.retain(|_, rule| !rule.assignment.has_ended());
        let gone = |name: &String, _: &mut RuleHandle| !wanted.iter().any(|rule| rule.name == *name);
        for (name, rule) in set.active.extract_if(.., gone) {
            tracing::info!(rule = name, "the rule is removed: its claimed rows are finished");
            rule.assignment.change(None);
            set.retiring.insert(name, rule);
        }
        for config in &wanted {
            let back = set.retiring.remove(&config.name);
            if let Some(mut rule) = back.filter(|rule| rule.assignment.change(Some(config.clone()))) {
                rule.config = config.clone();
                set.active.insert(config.name.clone(), rule);
            } else if let Some(rule) = set.active.get_mut(&config.name)
                && rule.config != *config
            {
                tracing::info!(
                    rule = config.name,
                    "the rule has changed: rows claimed by its old version are finished"
                );
                rule.assignment.change(Some(config.clone()));
                rule.config = config.clone();
            }
        }
        set.wanted = wanted;
    }

    /// `is_stopped` tells whether an operator has stopped the child with an id.
    pub(crate) fn next(&self, is_stopped: impl Fn(&str) -> bool) -> Option<Step> {
        let set = &mut *self.set.lock();
        if let Some(name) = set.being_added.take() {
            // The poller was restarted during the step, so its result is unknown.
            set.active.remove(&name);
            return Some(Step::Remove(ChildSpec::id_of(&name)));
        }
        // A stopped child cannot finish anything and has no rows.
        let stopped = set.retiring.keys().find(|name| is_stopped(&ChildSpec::id_of(name))).cloned();
        if let Some(name) = stopped {
            set.retiring.remove(&name);
            return Some(Step::Remove(ChildSpec::id_of(&name)));
        }
        let missing = set.wanted.iter().find(|rule| !set.active.contains_key(&rule.name))?;
        let (handle, spec) = self.factory.create(missing);
        set.being_added = Some(missing.name.clone());
        set.active.insert(handle.config.name.clone(), handle);
        Some(Step::Add(Box::new(spec)))
    }

    /// Records the result of the last step.
    pub(crate) fn step_finished(&self, done: bool) {
        let set = &mut *self.set.lock();
        if let Some(name) = set.being_added.take().filter(|_| !done) {
            set.active.remove(&name);
            set.retiring.remove(&name);
        }
    }

    /// Triggers a poll that also ends parking and backoff; returns false if there is no such rule.
    pub(crate) fn force_poll(&self, name: &str) -> bool {
        let set = self.set.lock();
        set.active.get(name).map(|rule| rule.assignment.force_poll()).is_some()
    }

    /// Asks the agents about the row `name`, a key, with the name of a rule and a slash before it for that
    /// rule alone.
    pub(crate) fn ask(&self, name: &str) -> Vec<Asked> {
        let set = self.set.lock();
        let all = || set.active.values().chain(set.retiring.values()).filter(|rule| !rule.config.notify_only);
        let of_rule = all().find_map(|rule| {
            let key = name.strip_prefix(&rule.config.name)?.strip_prefix('/')?;
            Some((rule, key))
        });
        let asked: Vec<_> = match of_rule {
            Some(one) => vec![one],
            None => all().map(|rule| (rule, name)).collect(),
        };
        let ask = |(rule, key): (&RuleHandle, &str)| Asked {
            config: rule.config.clone(),
            key: key.to_owned(),
            answers: rule.assignment.ask(key),
        };
        asked.into_iter().map(ask).collect()
    }

    /// Access to the catalog.
    pub(crate) fn service(&self) -> S {
        self.factory.context.service.clone()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.set.lock().active.keys().cloned().collect()
    }

    pub(crate) fn statuses(&self) -> BTreeMap<String, RuleStatus> {
        let set = self.set.lock();
        set.active.iter().map(|(name, rule)| (name.clone(), rule.status.get())).collect()
    }
}
