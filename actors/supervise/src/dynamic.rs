//! Handle on the children of a dynamic supervisor.

use std::fmt;

use tokio::sync::{mpsc, oneshot};

pub use crate::spec::{Children, ChildrenSlot};
use crate::{
    ChildSpec, ChildrenError,
    spec::{Change, ChangeKind},
};

/// Changes that may wait for the supervisor; further callers wait until one is taken.
const CHANGES: usize = 16;

/// Creates a handle on at most `max` children, and the receiving end for [`ChildSpec::dynamic`].
pub fn children(max: usize) -> (Children, ChildrenSlot) {
    let (sender, receiver) = mpsc::channel(CHANGES);
    (Children { changes: sender }, ChildrenSlot { changes: receiver, max })
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Children")
    }
}

impl fmt::Debug for ChildrenSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildrenSlot").field("max", &self.max).finish_non_exhaustive()
    }
}

impl Children {
    /// Adds a child and waits until it is up. If the supervisor does not run, the child starts with it.
    ///
    /// Dropping the future before the supervisor has taken the change cancels it.
    ///
    /// # Errors
    /// The child is not added: its id is taken, the limit is reached, the specification is invalid, or the
    /// child did not start.
    pub async fn add(&self, child: ChildSpec) -> Result<(), ChildrenError> {
        self.change(ChangeKind::Add(Box::new(child))).await
    }

    /// Stops the child with this id, waits for its end, and removes it from the tree.
    ///
    /// # Errors
    /// There is no such child, it is being removed already, or it did not stop in time; it then leaves the
    /// tree once it has ended.
    pub async fn remove(&self, id: impl Into<String>) -> Result<(), ChildrenError> {
        self.change(ChangeKind::Remove(id.into())).await
    }

    async fn change(&self, kind: ChangeKind) -> Result<(), ChildrenError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.changes.send(Change { kind, reply }).await;
        sent.map_err(|_closed| ChildrenError::Ended)?;
        answer.await.unwrap_or(Err(ChildrenError::Ended))
    }
}
