//! Hooks: a program or a webhook is told about each occurrence of a kind, such as a failed job of the queue,
//! at least once.
//!
//! 1. `collector` collects occurrences: failed jobs from the console of the queue, which keeps them in its
//!    database; dead rows of a catalog and gaps of an ingester, which children report by
//!    `HookEvents::report`; and given up subsystems from the event log of the tree.
//! 2. It stores them in `outbox`, a SQLite database in the state directory, with the number of the last
//!    failed job in the same transaction. So a failed job is stored exactly once, whenever the process is
//!    killed.
//! 3. Each hook has a copy of an occurrence, with an id that all its attempts have. At most 16 MiB wait for
//!    each hook; beyond them the oldest are dropped, which a counter and a note report.
//! 4. Each hook is a child that delivers its oldest occurrence until the receiver accepts it, by
//!    `orchestrator_edge::delivery`. Then it removes the copy and goes on. A kill in between repeats the
//!    delivery.
//! 5. After five refusals of an occurrence for its content, the outbox puts it aside: it is kept, counted and
//!    named, and later ones go on. A restart of the child by an operator sends those that were put aside
//!    again.
//! 6. The child of a hook has the link to the receiver, so `tree` and `why` show which receiver is down since
//!    when, with its reason. The metric `backlog` has the number of occurrences that wait. The log has a line
//!    for each attempt.
//! 7. A reported occurrence waits in memory until the outbox has stored it, usually for milliseconds. A kill
//!    in that time loses it.

mod collector;
mod config;
mod delivery_task;
mod edge;
mod messages;
mod outbox_event;

use std::path::Path;

use orchestrator_edge::delivery::{Courier, Receiver};
use orchestrator_subsystem::Exchange;
use orchestrator_supervise::{ChildSpec, Limits, Placement, Shutdown, Strategy, SupervisorSpec, inbox};
use tokio::sync::watch;

pub use self::{
    config::{HookConfig, HookEventKind, check},
    edge::outbox::OutboxError,
};
use crate::config::{COLLECTOR, OUTBOX};
use crate::{
    collector::Collector,
    delivery_task::DeliveryTask,
    edge::outbox::{self, HookQueue},
    messages::Kept,
};

/// Tree id of the branch.
const HOOKS: &str = "hooks";
/// Capacity of the outbox's inbox: each child sends one request at a time.
const REQUEST_CAPACITY: usize = 256;

/// Returns the branch of valid `hooks`, whose outbox is the database at `path`. They tell what `exchange` and
/// the tree report.
///
/// # Errors
/// An address or a `ca_file` cannot be used. The text begins with the key.
pub fn child_spec(hooks: &[HookConfig], path: &Path, exchange: &Exchange) -> Result<ChildSpec, String> {
    let (requests, slot) = inbox(REQUEST_CAPACITY);
    let (mut queues, mut deliveries) = (Vec::new(), Vec::new());
    for hook in hooks {
        let (kept, in_outbox) = watch::channel(Kept::default());
        queues.push(HookQueue { name: hook.name.clone(), on: hook.on, kept });
        let section = hook.section();
        let receiver = Receiver::new(&hook.receiver(&section))?;
        let task = DeliveryTask::new(hook.name.clone(), receiver, requests.clone(), in_outbox);
        deliveries.push(
            ChildSpec::worker(hook.name.clone(), task.factory())
                .shutdown(Shutdown::After(Courier::DRAIN))
                .waits_for(&requests),
        );
    }
    let kinds = hooks.iter().map(|hook| hook.on).collect();
    let collector = Collector::new(kinds, requests.clone(), exchange.clone());
    let collector = ChildSpec::worker(COLLECTOR, collector.factory());
    let tree = SupervisorSpec::new(Strategy::OneForOne)
        .limits(Limits::LEAF)
        .child(ChildSpec::worker(OUTBOX, outbox::factory(path, queues, &slot)));
    let tree = deliveries
        .into_iter()
        .fold(tree, SupervisorSpec::child)
        .child(collector.waits_for(&requests).waits_for(&exchange.queue_console));
    Ok(ChildSpec::supervisor(HOOKS, tree).placement(Placement::Dedicated))
}

/// Creates the outbox at `path` with its directory, and checks that no other instance uses it.
///
/// # Errors
/// It is used, or its directory cannot be created. A disk that is full is no error: the outbox waits for it.
pub fn preflight(path: &Path) -> Result<(), OutboxError> {
    outbox::preflight(path)
}
