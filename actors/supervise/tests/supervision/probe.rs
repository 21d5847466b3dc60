//! An actor that carries out actions of a test and journals its calls.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    AskError, Backoff, Child, ChildCx, ChildSpec, Command, Exit, Factory, Fault, Handle, Handled, Limits,
    Mailbox, MailboxSlot, Message, Origin, Shutdown, StartCx, State, Tree, mailbox, testing::eventually,
};

/// Longest wait for an answer that must come.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Journal of calls, in order. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
    pub(crate) fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|other| *other == line).count()
    }
}

/// Actions of a probe besides its messages.
#[derive(Clone, Default)]
pub(crate) struct ProbeConfig {
    pub journal: Journal,
    /// Exits passed to `stopped`.
    pub exits: Journal,
    pub on_start: Option<fn(&mut ChildCx<'_, Probe>)>,
    pub on_stop: Option<fn()>,
    pub on_drop: Option<fn()>,
    /// Set while the probe's own work is not finished.
    pub busy: Arc<AtomicBool>,
}

pub(crate) struct Probe {
    pub name: String,
    pub config: ProbeConfig,
}

impl Probe {
    pub(crate) fn note(&self, what: &str) {
        self.config.journal.add(format!("{} {what}", self.name));
    }
}

impl Child for Probe {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.note("started");
        if let Some(action) = self.config.on_start {
            action(cx);
        }
    }
    fn drained(&self) -> bool {
        !self.config.busy.load(SeqCst)
    }
    fn stopped(&mut self, exit: &Exit) {
        self.note("stopped");
        self.config.exits.add(exit.to_string());
        if let Some(action) = self.config.on_stop {
            action();
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.note("dropped");
        if let Some(action) = self.config.on_drop {
            action();
        }
    }
}

/// Message that is answered with the number of the incarnation, and journals its own number.
pub(crate) struct Ping(pub u32);

impl Message for Ping {
    type Result = u64;
}

impl Handle<Ping> for Probe {
    fn handle(&mut self, Ping(n): Ping, cx: &mut ChildCx<'_, Self>) -> Handled<Self, u64> {
        self.note(&n.to_string());
        Handled::now(cx.incarnation())
    }
}

type Action = Box<dyn FnOnce(&mut Probe, &mut ChildCx<'_, Probe>) -> Handled<Probe, ()> + Send>;

/// Message that carries out an action inside the actor.
pub(crate) struct Do(pub Action);

impl Message for Do {
    type Result = ();
}

impl Handle<Do> for Probe {
    fn handle(&mut self, action: Do, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        (action.0)(self, cx)
    }
}

pub(crate) fn act(action: impl FnOnce(&mut Probe, &mut ChildCx<'_, Probe>) + Send + 'static) -> Do {
    Do(Box::new(move |probe, cx| {
        action(probe, cx);
        Handled::done()
    }))
}

/// Panics in its handler.
pub(crate) fn boom() -> Do {
    act(|_, _| panic!("boom"))
}

/// A task that does nothing until it is stopped.
pub(crate) fn idle_task() -> Factory {
    Factory::task(|cx: StartCx| async move {
        cx.stop.cancelled().await;
        Ok(())
    })
}

pub(crate) fn factory(name: &str, slot: MailboxSlot<Probe>, config: &ProbeConfig) -> Factory {
    let (name, config) = (name.to_owned(), config.clone());
    Factory::actor(slot, move |_cx| -> Result<Probe, Fault> {
        Ok(Probe { name: name.clone(), config: config.clone() })
    })
}

/// A probe with a mailbox for 64 messages and 5 s to stop.
pub(crate) fn probe(id: &str, config: &ProbeConfig) -> (Mailbox<Probe>, ChildSpec) {
    let (mailbox, slot) = mailbox(64);
    (mailbox, ChildSpec::worker(id, factory(id, slot, config)))
}

/// Creates a probe that writes into `journal`.
pub(crate) fn journaling(id: &str, journal: &Journal) -> (Mailbox<Probe>, ChildSpec) {
    probe(id, &ProbeConfig { journal: journal.clone(), ..ProbeConfig::default() })
}

/// Many restarts, a few milliseconds apart.
pub(crate) fn lenient() -> Limits {
    limits(1000, Duration::from_secs(60))
}

pub(crate) fn limits(intensity: u32, period: Duration) -> Limits {
    let backoff = Backoff { first: Duration::from_millis(1), max: Duration::from_millis(4) };
    Limits { intensity, period, backoff }
}

pub(crate) fn deadline(ms: u64) -> Shutdown {
    Shutdown::After(Duration::from_millis(ms))
}

pub(crate) fn state(tree: &Tree, path: &str) -> String {
    tree.node(path).expect("a known path").state.to_string()
}

pub(crate) async fn until_state(tree: &Tree, path: &str, wanted: &str) {
    eventually(&format!("{path} is {wanted}"), || state(tree, path) == wanted).await;
}

/// Waits until incarnation `n`, or a later one, runs.
pub(crate) async fn until_incarnation(tree: &Tree, path: &str, n: u64) {
    let there = || tree.node(path).is_some_and(|node| node.incarnation >= n && node.state == State::Running);
    eventually(&format!("{path} runs incarnation {n}"), there).await;
}

pub(crate) async fn ping(mailbox: &Mailbox<Probe>, n: u32) -> Result<u64, AskError> {
    mailbox.ask(Ping(n), LONG).await
}

pub(crate) fn origin() -> Origin {
    Origin { by: "a test".to_owned(), reason: "to see".to_owned() }
}

/// Gives a command that must succeed.
pub(crate) async fn command(tree: &Tree, path: &str, verb: Command) {
    tree.command(path, verb, &origin()).await.expect("a command that is obeyed");
}

pub(crate) fn events(tree: &Tree, path: &str) -> Vec<EventKind> {
    tree.events(0).into_iter().filter(|event| event.path == path).map(|event| event.kind).collect()
}
