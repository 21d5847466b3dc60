//! The loop of the full screen: keys, signals, requests, frames.

use std::{
    future::{Future, pending},
    io,
    pin::Pin,
    time::Duration,
};

use orchestrator_subsystem::{
    CommandError,
    wire::{CommandResponse, TreeSnapshot},
};
use orchestrator_supervise::now_ms;
use rustix::process::{Signal as RawSignal, getpid, kill_process};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::sleep,
};

use crate::cli::{
    client::Client,
    top::{
        details::{Details, Subject},
        input::{Key, keys},
        listing::Listing,
        palette::Palette,
        prompt::Command,
        request::{fetch_details, fetch_tree, send},
        state::{Action, State},
        terminal::Screen,
        view,
    },
};

/// Delay before details are requested, so that a selection that passes by requests none.
const SETTLE: Duration = Duration::from_millis(100);

/// A request in progress, if there is one.
type Pending<'a, T> = Option<Pin<Box<dyn Future<Output = T> + 'a>>>;

/// The signals that `top` handles.
struct Signals {
    /// Interrupt, terminate and hangup.
    ends: [Signal; 3],
    stop: Signal,
    cont: Signal,
    resize: Signal,
}

/// Cause of the next frame.
enum Wake {
    Key(Option<Key>),
    Tree(Box<Result<TreeSnapshot, CommandError>>),
    Details(Result<Details, CommandError>),
    Done(Result<CommandResponse, CommandError>),
    End,
    Stop,
    Continue,
    /// The next frame has the new size.
    Resized,
}

/// Screen, state and requests.
struct FullScreen<'a> {
    client: &'a Client,
    path: Option<&'a str>,
    interval: Duration,
    screen: Screen,
    state: State,
    tree: Pending<'a, Result<TreeSnapshot, CommandError>>,
    details: Pending<'a, Result<Details, CommandError>>,
    /// Child whose details were requested last.
    subject: Option<Subject>,
    command: Option<Command>,
    done: Pending<'a, Result<CommandResponse, CommandError>>,
}

/// Shows the tree until a key or a signal ends it.
///
/// # Errors
/// The first request fails, or the terminal cannot be used.
pub(super) async fn run(
    client: &Client,
    path: Option<&str>,
    interval: Duration,
    listing: Listing,
) -> Result<(), CommandError> {
    let first = fetch_tree(client, path).await?;
    let mut signals = Signals::new().map_err(CommandError::Setup)?;
    let mut full = FullScreen {
        client,
        path,
        interval,
        screen: Screen::take()?,
        state: State::new(listing, first),
        tree: None,
        details: None,
        subject: None,
        command: None,
        done: None,
    };
    let mut keys = keys()?;
    let palette = Palette::from_env();
    full.request_tree();
    loop {
        full.screen.draw(|frame| view::draw(frame, &mut full.state, palette, now_ms()))?;
        let wake = tokio::select! {
            key = keys.recv() => Wake::Key(key),
            tree = ready(&mut full.tree) => Wake::Tree(Box::new(tree)),
            details = ready(&mut full.details) => Wake::Details(details),
            done = ready(&mut full.done) => Wake::Done(done),
            wake = signals.next() => wake,
        };
        match wake {
            // Without a terminal, there are no more keys.
            Wake::Key(None) | Wake::End => return Ok(()),
            Wake::Key(Some(key)) => match full.state.press(key) {
                Some(Action::Quit) => return Ok(()),
                Some(Action::Suspend) => full.suspend(&mut signals).await?,
                Some(Action::Send(command)) => full.send(command),
                None => {}
            },
            Wake::Tree(tree) => full.take_tree(*tree),
            Wake::Details(details) => full.take_details(details),
            Wake::Done(done) => full.take_response(done),
            Wake::Resized => {}
            Wake::Stop => full.suspend(&mut signals).await?,
            Wake::Continue => full.screen.resume()?,
        }
        full.request_details();
    }
}

impl<'a> FullScreen<'a> {
    /// Requests the next tree after the interval.
    fn request_tree(&mut self) {
        let (client, path, interval) = (self.client, self.path, self.interval);
        self.tree = Some(Box::pin(async move {
            sleep(interval).await;
            fetch_tree(client, path).await
        }));
    }

    fn take_tree(&mut self, tree: Result<TreeSnapshot, CommandError>) {
        match tree {
            Ok(tree) => {
                self.state.take(tree);
                // Open details are as old as the tree.
                if self.details.is_none() {
                    self.subject = None;
                }
            }
            Err(error) => self.state.lose(error.to_string(), now_ms()),
        }
        self.request_tree();
    }

    /// Requests the details of the selected child, if they are open and were not requested yet.
    fn request_details(&mut self) {
        let wanted = self.state.subject();
        let path = |subject: &Option<Subject>| subject.as_ref().map(|subject| subject.path.clone());
        if path(&wanted) == path(&self.subject) {
            return;
        }
        let client = self.client;
        self.subject = wanted.clone();
        self.details = wanted.map(|subject| -> Pin<Box<dyn Future<Output = _> + 'a>> {
            Box::pin(async move {
                sleep(SETTLE).await;
                fetch_details(client, &subject).await
            })
        });
    }

    fn take_details(&mut self, details: Result<Details, CommandError>) {
        self.details = None;
        self.state.take_details(details.map_err(|error| error.to_string()));
    }

    fn send(&mut self, command: Command) {
        if self.done.is_some() {
            let reason = "another command is in progress: wait for its result".to_owned();
            return self.state.finish(&command, Err(reason));
        }
        let (client, copy) = (self.client, command.clone());
        self.command = Some(command);
        self.done = Some(Box::pin(async move { send(client, &copy).await }));
    }

    fn take_response(&mut self, response: Result<CommandResponse, CommandError>) {
        self.done = None;
        if let Some(command) = self.command.take() {
            self.state.finish(&command, response.map_err(|error| error.to_string()));
        }
    }

    /// Stops the process as the shell's Ctrl-Z does, until it is continued.
    async fn suspend(&mut self, signals: &mut Signals) -> Result<(), CommandError> {
        self.screen.suspend();
        kill_process(getpid(), RawSignal::STOP).map_err(io::Error::from)?;
        signals.cont.recv().await;
        Ok(self.screen.resume()?)
    }
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            ends: [
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            ],
            stop: signal(SignalKind::from_raw(RawSignal::TSTP.as_raw()))?,
            cont: signal(SignalKind::from_raw(RawSignal::CONT.as_raw()))?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    async fn next(&mut self) -> Wake {
        let [interrupt, terminate, hangup] = &mut self.ends;
        tokio::select! {
            _ = interrupt.recv() => Wake::End,
            _ = terminate.recv() => Wake::End,
            _ = hangup.recv() => Wake::End,
            _ = self.stop.recv() => Wake::Stop,
            _ = self.cont.recv() => Wake::Continue,
            _ = self.resize.recv() => Wake::Resized,
        }
    }
}

/// Waits for a request, or forever if there is none.
async fn ready<T>(request: &mut Pending<'_, T>) -> T {
    match request {
        Some(request) => request.await,
        None => pending().await,
    }
}
