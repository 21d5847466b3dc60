//! The handle on a dynamic supervisor's children.

use std::fmt;

use tokio::sync::{mpsc, oneshot};

pub use crate::spec::{Children, ChildrenSlot};
use crate::{
    ChildSpec, ChildrenError,
    spec::{Change, Edit},
};

/// Changes that may wait for the supervisor; further callers wait for a free place.
const CHANGES: usize = 16;

/// Makes the handle on at most `max` children, and the slot that their supervisor is built around.
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
    /// Declares a child and waits until it is up. While the supervisor does not run the child is declared only, and starts with it.
    /// A caller that goes away before the supervisor has taken the change gives it up.
    ///
    /// # Errors
    /// The child is not declared: its id is taken, the supervisor is full, the specification is invalid, or the child did not start.
    pub async fn add(&self, child: ChildSpec) -> Result<(), ChildrenError> {
        self.change(Edit::Add(Box::new(child))).await
    }

    /// Stops the child with this id, waits for its end, and takes it out of the tree.
    ///
    /// # Errors
    /// There is no such child, it leaves already, or it did not stop in time; it is then out of the tree when it has ended.
    pub async fn remove(&self, id: impl Into<String>) -> Result<(), ChildrenError> {
        self.change(Edit::Remove(id.into())).await
    }

    /// Stops the child with the same id, and declares this one in its place once it has ended. An operator's pause stays.
    ///
    /// # Errors
    /// As for [`remove`](Self::remove) and [`add`](Self::add). An invalid specification leaves the former child alone.
    pub async fn replace(&self, child: ChildSpec) -> Result<(), ChildrenError> {
        self.change(Edit::Replace(Box::new(child))).await
    }

    async fn change(&self, what: Edit) -> Result<(), ChildrenError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.changes.send(Change { what, reply }).await;
        sent.map_err(|_closed| ChildrenError::Ended)?;
        answer.await.unwrap_or(Err(ChildrenError::Ended))
    }
}
