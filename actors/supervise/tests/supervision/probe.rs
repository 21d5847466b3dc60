//! An actor that does what a test tells it to, and notes what happens to it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use orchestrator_supervise::{
    Answer, AskError, Backoff, Child, ChildCx, ChildSpec, Command, EventKind, Exit, Factory, Fault, Handle,
    Limits, Mailbox, MailboxSlot, Message, Origin, Shutdown, StartCx, Tree, mailbox, testing::eventually,
};

/// Longest wait for an answer that must come.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// What happened, in order. Clones share it.
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

/// What one incarnation does besides its messages.
#[derive(Clone, Default)]
pub(crate) struct Habits {
    pub journal: Journal,
    /// The exits that `stopped` was told.
    pub exits: Journal,
    pub on_start: Option<fn(&mut ChildCx<'_, Probe>)>,
    pub on_stop: Option<fn()>,
    pub on_drop: Option<fn()>,
    /// Set while work that was begun is not finished.
    pub busy: Arc<AtomicBool>,
}

pub(crate) struct Probe {
    pub name: String,
    pub habits: Habits,
}

impl Probe {
    pub(crate) fn note(&self, what: &str) {
        self.habits.journal.add(format!("{} {what}", self.name));
    }
}

impl Child for Probe {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.note("started");
        if let Some(habit) = self.habits.on_start {
            habit(cx);
        }
    }
    fn drained(&self) -> bool {
        !self.habits.busy.load(SeqCst)
    }
    fn stopped(&mut self, exit: &Exit) {
        self.note("stopped");
        self.habits.exits.add(exit.to_string());
        if let Some(habit) = self.habits.on_stop {
            habit();
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.note("dropped");
        if let Some(habit) = self.habits.on_drop {
            habit();
        }
    }
}

/// Asks for the number of the incarnation that answers, and notes the number given.
pub(crate) struct Ping(pub u32);

impl Message for Ping {
    type Result = u64;
}

impl Handle<Ping> for Probe {
    fn handle(&mut self, Ping(n): Ping, cx: &mut ChildCx<'_, Self>) -> Answer<Self, u64> {
        self.note(&n.to_string());
        Answer::now(cx.incarnation())
    }
}

type Deed = Box<dyn FnOnce(&mut Probe, &mut ChildCx<'_, Probe>) -> Answer<Probe, ()> + Send>;

/// Does something inside the actor.
pub(crate) struct Do(pub Deed);

impl Message for Do {
    type Result = ();
}

impl Handle<Do> for Probe {
    fn handle(&mut self, deed: Do, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        (deed.0)(self, cx)
    }
}

pub(crate) fn act(deed: impl FnOnce(&mut Probe, &mut ChildCx<'_, Probe>) + Send + 'static) -> Do {
    Do(Box::new(move |probe, cx| {
        deed(probe, cx);
        Answer::done()
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

/// Makes the actor's factory.
pub(crate) fn factory(name: &str, slot: MailboxSlot<Probe>, habits: &Habits) -> Factory {
    let (name, habits) = (name.to_owned(), habits.clone());
    Factory::actor(slot, move |_cx| -> Result<Probe, Fault> {
        Ok(Probe { name: name.clone(), habits: habits.clone() })
    })
}

/// A probe with a mailbox for 64 messages and 5 s to stop.
pub(crate) fn probe(id: &str, habits: &Habits) -> (Mailbox<Probe>, ChildSpec) {
    let (mailbox, slot) = mailbox(64);
    (mailbox, ChildSpec::worker(id, factory(id, slot, habits)))
}

/// A probe that notes into `journal`.
pub(crate) fn noting(id: &str, journal: &Journal) -> (Mailbox<Probe>, ChildSpec) {
    probe(id, &Habits { journal: journal.clone(), ..Habits::default() })
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
    tree.node(path).expect("a known path").state
}

pub(crate) async fn until_state(tree: &Tree, path: &str, wanted: &str) {
    eventually(&format!("{path} is {wanted}"), || state(tree, path) == wanted).await;
}

/// Waits until incarnation `n`, or a later one, runs.
pub(crate) async fn until_incarnation(tree: &Tree, path: &str, n: u64) {
    let there = || tree.node(path).is_some_and(|node| node.incarnation >= n && node.state == "running");
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

/// The events about `path`.
pub(crate) fn events(tree: &Tree, path: &str) -> Vec<EventKind> {
    tree.events(0).into_iter().filter(|event| event.path == path).map(|event| event.kind).collect()
}
