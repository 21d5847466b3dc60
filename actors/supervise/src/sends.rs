//! Messages between children that their specifications declare: who sends to whom, and who waits meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use orchestrator_observe::is_in_branch;

use crate::{SpecError, mailbox_stats::MailboxStats};

/// Part of the text of each panic about a message that is not declared.
pub(crate) const UNDECLARED: &str = "which it does not declare";

/// Receiver of a child's messages, an argument of [`ChildSpec::sends_to`](crate::ChildSpec::sends_to): the
/// child that has a mailbox or inbox, or a child with all below it.
#[derive(Clone)]
pub struct Target(Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.path()).finish()
    }
}

impl Target {
    /// `path` returns None as long as no child of a tree is meant.
    pub(crate) fn new(path: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(path))
    }

    pub(crate) fn owner_of(mailbox: &Arc<MailboxStats>) -> Self {
        let mailbox = mailbox.clone();
        Self::new(move || mailbox.owner().map(|path| path.to_string()))
    }

    fn path(&self) -> Option<String> {
        (self.0)()
    }
}

/// Declaration of a specification.
#[derive(Debug, Clone)]
pub(crate) struct DeclaredSend {
    pub(crate) to: Target,
    /// True if the child may handle nothing else until the message has room, or its answer has come.
    pub(crate) waits: bool,
}

/// Paths of the declared receivers.
pub(crate) fn receivers(sends: &[DeclaredSend]) -> Vec<String> {
    sends.iter().filter_map(|send| send.to.path()).collect()
}

/// All messages that one child may send: those that it declares, and those of the supervisors above it.
#[derive(Debug)]
pub(crate) struct AllowedSends {
    pub(crate) from: Arc<str>,
    pub(crate) sends: Arc<[DeclaredSend]>,
}

impl AllowedSends {
    /// # Panics
    /// If the message is not declared. Messages to the child itself, and out of the tree, need no
    /// declaration.
    pub(crate) fn check(&self, mailbox: &MailboxStats, waits: bool) {
        let Some(to) = mailbox.owner().filter(|to| *to != self.from) else { return };
        let leads_there = |send: &DeclaredSend| send.to.path().is_some_and(|path| is_in_branch(&to, &path));
        let is_declared = self.sends.iter().any(|send| (send.waits || !waits) && leads_there(send));
        let (verb, method) = if waits { ("waits for", "waits_for") } else { ("sends to", "sends_to") };
        assert!(
            is_declared,
            "{} {verb} {to}, {UNDECLARED}: add ChildSpec::{method} to its specification",
            self.from
        );
    }
}

/// Looks for a cycle among the declared waits of children, each with its path.
///
/// # Errors
/// There is one; the text names its children in order.
pub(crate) fn refuse_cycles<'a>(
    children: impl Iterator<Item = (&'a str, &'a [DeclaredSend])>,
) -> Result<(), SpecError> {
    let targets = |sends: &[DeclaredSend]| {
        let waits = sends.iter().filter(|send| send.waits);
        waits.filter_map(|send| send.to.path()).collect::<Vec<_>>()
    };
    let waits: Waits<'_> = children.map(|(path, sends)| (path, targets(sends))).collect();
    let (mut trail, mut done) = (Vec::new(), BTreeSet::new());
    if !waits.keys().any(|path| finds_cycle(path, &waits, &mut trail, &mut done)) {
        return Ok(());
    }
    let first = trail[0].to_owned();
    let text = format!(
        "its waits are a cycle that no child of it could leave: {} -> {first}: send without waiting in one of them",
        trail.join(" -> ")
    );
    Err(SpecError { path: first, text })
}

/// Targets of each child's waits, by its path.
type Waits<'a> = BTreeMap<&'a str, Vec<String>>;

/// Follows the waits from `path`. After a cycle, `trail` has its paths in order. A path in `done` leads to
/// none.
fn finds_cycle<'a>(
    path: &'a str,
    waits: &Waits<'a>,
    trail: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> bool {
    if let Some(first) = trail.iter().position(|known| *known == path) {
        trail.drain(..first);
        return true;
    }
    if !done.insert(path) {
        return false;
    }
    trail.push(path);
    for target in &waits[path] {
        // The target may be above or below the children that declare its waits.
        let mut next = waits.keys().filter(|path| is_in_branch(path, target) || is_in_branch(target, path));
        if next.any(|path| finds_cycle(path, waits, trail, done)) {
            return true;
        }
    }
    trail.pop();
    false
}
