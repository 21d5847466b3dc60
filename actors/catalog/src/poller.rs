//! The actor CatalogPoller: knows when to look and tells the rules, adds and removes their children, and answers operators.

mod console;
mod timing;

use std::time::Duration;

use orchestrator_supervise::{
    Answer, Child, ChildCx, ChildrenError, Factory, Handle, MailboxSlot, MetricKind, StartCx, State,
};

use crate::{
    config::CatalogConfig,
    edge::notices::Notices,
    messages::SetRules,
    polling::Polling,
    rules::{Rules, Step},
    service::Service,
};

/// Help text of the only metric of the poller.
const LOOKS_HELP: &str = "Times that rules were told to look, after a notice or since it was time.";
/// Delay before a rule's child that could not be added is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The actor.
pub struct CatalogPoller<S> {
    config: CatalogConfig,
    notices: Notices,
    rules: Rules<S>,
    cx: StartCx,
    /// A child is being added or removed.
    changing: bool,
}

/// The child: it tells `rules` to look whenever `notices` tell it to, or it is time.
pub(crate) fn factory<S: Service + Clone + Unpin + Send + 'static>(
    config: &CatalogConfig,
    slot: MailboxSlot<CatalogPoller<S>>,
    notices: Notices,
    rules: Rules<S>,
) -> Factory {
    let config = config.clone();
    Factory::actor(slot, move |cx| {
        let (config, notices, rules) = (config.clone(), notices.clone(), rules.clone());
        Ok(CatalogPoller { config, notices, rules, cx: cx.clone(), changing: false })
    })
}

impl<S: Service + Clone + Unpin + Send + 'static> Child for CatalogPoller<S> {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        let clock = timing::Clock {
            polling: Polling::new(self.config.patience()),
            notices: self.notices.clone(),
            rules: self.rules.clone(),
            cx: self.cx.clone(),
            looked: cx.vitals().register("looks", "", MetricKind::Counter, LOOKS_HELP),
        };
        cx.spawn(clock.run(), |_, (), _| ());
        self.change_children(cx);
    }
}

impl<S: Service + Clone + Unpin + Send + 'static> CatalogPoller<S> {
    /// The path of the child with this id.
    fn path(&self, id: &str) -> String {
        let own = self.cx.vitals.path();
        format!("{}/rules/{id}", own.rsplit_once('/').map_or("", |(above, _)| above))
    }

    /// Adds and removes children, one at a time, until they are those of the rules.
    fn change_children(&mut self, cx: &mut ChildCx<'_, Self>) {
        if self.changing {
            return;
        }
        let state = |id: &str| self.cx.tree.vitals(&self.path(id)).map(|vitals| vitals.state());
        let Some(step) = self.rules.next(|id| state(id) == Some(State::Stopped)) else { return };
        self.changing = true;
        let children = self.rules.children.clone();
        let change = async move {
            match step {
                Step::Add(child) => children.add(child).await,
                Step::Remove(id) => match children.remove(id).await {
                    // It left by itself, or is about to.
                    Err(ChildrenError::Missing(_) | ChildrenError::Leaving(_)) => Ok(()),
                    other => other,
                },
            }
        };
        cx.spawn(change, |poller, result, cx| {
            poller.changing = false;
            poller.rules.carried_out(result.is_ok());
            match result {
                Ok(()) => poller.change_children(cx),
                Err(error) => {
                    tracing::warn!(%error, "a rule's child was not changed, which is tried again");
                    cx.after(RETRY, Self::change_children);
                }
            }
        });
    }
}

impl<S: Service + Clone + Unpin + Send + 'static> Handle<SetRules> for CatalogPoller<S> {
    fn handle(&mut self, SetRules { rules }: SetRules, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        self.rules.set(rules);
        self.change_children(cx);
        Answer::done()
    }
}
