//! The actor CatalogPoller: adds and removes the children of the rules, and answers operators.

mod console;
mod explain;

use std::time::Duration;

use orchestrator_supervise::{
    Child, ChildCx, ChildRef, ChildrenError, Factory, Handle, Handled, MailboxSlot, StartCx, State,
};

use crate::{
    config::CatalogConfig,
    edge::notices::Notices,
    messages::SetRules,
    rules::{Rules, Step},
    service::Service,
};

/// Delay before a failed change of the children is retried.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) struct CatalogPoller<S> {
    config: CatalogConfig,
    notices: Notices,
    rules: Rules<S>,
    /// Supervisor of the rules' children.
    rules_child: ChildRef,
    cx: StartCx,
    /// A child is being added or removed.
    changing: bool,
}

/// Factory of the child.
pub(crate) fn factory<S: Service + Clone + Unpin + Send + 'static>(
    config: &CatalogConfig,
    slot: MailboxSlot<CatalogPoller<S>>,
    notices: Notices,
    rules: Rules<S>,
    rules_child: ChildRef,
) -> Factory {
    let config = config.clone();
    Factory::actor(slot, move |cx| {
        let (config, notices, rules) = (config.clone(), notices.clone(), rules.clone());
        let rules_child = rules_child.clone();
        Ok(CatalogPoller { config, notices, rules, rules_child, cx: cx.clone(), changing: false })
    })
}

impl<S: Service + Clone + Unpin + Send + 'static> Child for CatalogPoller<S> {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.change_children(cx);
    }
}

impl<S: Service + Clone + Unpin + Send + 'static> CatalogPoller<S> {
    fn path(&self, id: &str) -> String {
        format!("{}/{id}", self.rules_child.path())
    }

    /// Adds and removes children, one at a time, until they match the rules.
    fn change_children(&mut self, cx: &mut ChildCx<'_, Self>) {
        if self.changing {
            return;
        }
        let state = |id: &str| self.cx.tree.child(&self.path(id)).map(|child| child.state());
        let Some(step) = self.rules.next(|id| state(id) == Some(State::Stopped)) else { return };
        self.changing = true;
        let children = self.rules.children.clone();
        let change = async move {
            match step {
                Step::Add(child) => children.add(*child).await,
                Step::Remove(id) => match children.remove(id).await {
                    // The child has ended by itself, or is ending.
                    Err(ChildrenError::Missing(_) | ChildrenError::Leaving(_)) => Ok(()),
                    other => other,
                },
            }
        };
        cx.spawn(change, |poller, result, cx| {
            poller.changing = false;
            poller.rules.step_finished(result.is_ok());
            match result {
                Ok(()) => poller.change_children(cx),
                Err(error) => {
                    tracing::warn!(%error, "cannot add or remove a rule's child, which is retried");
                    cx.after(RETRY, Self::change_children);
                }
            }
        });
    }
}

impl<S: Service + Clone + Unpin + Send + 'static> Handle<SetRules> for CatalogPoller<S> {
    fn handle(&mut self, SetRules { rules }: SetRules, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        self.rules.replace(rules);
        self.change_children(cx);
        Handled::done()
    }
}
