//! The children of the root that were given up, in one line for the service manager.

use std::sync::Arc;

use orchestrator_observe::{EventLog, without_root};
use orchestrator_supervise::{ChildState, State, Tree};

use crate::topology::ROOT;

/// The line, and what it is made of.
#[derive(Debug)]
pub(crate) struct GivenUp {
    children: Vec<Arc<ChildState>>,
    events: EventLog,
    line: String,
}

impl GivenUp {
    /// Creates an empty line about the children of the root of `tree`.
    pub(crate) fn new(tree: &Tree) -> Self {
        let children = tree.node(ROOT).map_or_else(Vec::new, |root| root.children);
        let children = children.iter().filter_map(|child| tree.child(&child.path)).collect();
        Self { children, events: tree.event_log().clone(), line: String::new() }
    }

    /// Waits until the line changes, and returns it. It is empty while no child is given up.
    pub(crate) async fn changed(&mut self) -> &str {
        loop {
            // An event follows each change.
            let seen = self.events.newest();
            let line = self.now();
            if line != self.line {
                self.line = line;
                return &self.line;
            }
            self.events.wait_after(seen).await;
        }
    }

    fn now(&self) -> String {
        let given_up = self.children.iter().filter(|child| child.state() == State::GivenUp);
        let texts = given_up.map(|child| {
            let reason = child.last_exit().map(|exit| exit.reason).unwrap_or_default();
            format!("{} is given up: {reason}", without_root(child.path()))
        });
        texts.collect::<Vec<_>>().join("; ")
    }
}
