//! Factories of children.

use std::{fmt, sync::Arc};

use orchestrator_observe::Fault;

use crate::{
    StartCx,
    body::{Body, BodyCx, actor::ActorBody, task::TaskBody, thread::ThreadBody},
    child::Child,
    inbox::InboxSlot,
    mailbox::MailboxSlot,
    mailbox_stats::MailboxStats,
};

/// Factory of the incarnations of one child.
pub struct Factory {
    pub(crate) make: Box<dyn FnOnce(BodyCx) -> Box<dyn Body> + Send>,
    pub(crate) kind: &'static str,
    /// Mailbox and inboxes, by name.
    pub(crate) mailboxes: Vec<(&'static str, Arc<MailboxStats>)>,
}

impl Factory {
    /// Creates the factory of an actor with the mailbox of `slot`; `make` creates an instance at every start.
    pub fn actor<A: Child>(
        slot: MailboxSlot<A>,
        make: impl FnMut(&StartCx) -> Result<A, Fault> + Send + 'static,
    ) -> Self {
        let mailboxes = vec![("mailbox", slot.mailbox.stats().clone())];
        let make = move |cx: BodyCx| Box::new(ActorBody::new(slot, make, &cx.child)) as Box<dyn Body>;
        Self { make: Box::new(make), kind: "actor", mailboxes }
    }

    /// Creates the factory of a task; `make` creates its future at every start. The future must end soon
    /// after `cx.stop` is cancelled.
    pub fn task<Fut>(make: impl FnMut(StartCx) -> Fut + Send + 'static) -> Self
    where
        Fut: Future<Output = Result<(), Fault>> + 'static,
    {
        let make = move |_cx: BodyCx| Box::new(TaskBody::new(make)) as Box<dyn Body>;
        Self { make: Box::new(make), kind: "task", mailboxes: Vec::new() }
    }

    /// Creates the factory of a thread, which calls `run` at every start. `run` must return soon after
    /// `cx.stop` is cancelled.
    ///
    /// A thread cannot be dropped. If it does not end by its deadline, it is shown as stuck, and no second
    /// one is started before it ends.
    pub fn thread(run: impl Fn(StartCx) -> Result<(), Fault> + Send + Sync + 'static) -> Self {
        let run = Arc::new(run);
        let make = move |_cx: BodyCx| Box::new(ThreadBody::new(run)) as Box<dyn Body>;
        Self { make: Box::new(make), kind: "thread", mailboxes: Vec::new() }
    }

    /// Adds an inbox of the task or thread, which the tree shows as `name` and
    /// [`OnRestart::Purge`](crate::OnRestart::Purge) empties.
    #[must_use]
    pub fn with_inbox<T: Send + 'static>(mut self, name: &'static str, slot: &InboxSlot<T>) -> Self {
        self.mailboxes.insert(0, (name, slot.stats().clone()));
        self
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}
