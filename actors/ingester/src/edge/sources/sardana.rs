//! Sardana over HTTP (CONTRACT IP25, IP28). The server stays open after the first run, since posts
//! outside a mapping are answered, too. The next source at the same address reuses it.

mod body;
mod server;

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
};

use futures_util::stream::{StreamExt, unfold};
use orchestrator_edge::LinkState;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{
    edge::sources::{
        dial::RETRY,
        outcome_counter::OutcomeCounter,
        sardana::{
            body::BodyLimits,
            server::{AcceptedPost, Server},
        },
    },
    item::Item,
    protocol::sardana::Sardana,
    source::{Items, Source, SourceCx, SourceError},
};

/// Posts that wait for the run; further ones wait in their requests.
const POSTS_MAX: usize = 64;

/// Servers without a source. Each mapping has a new source, but the port must stay open in between.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdleServers(Arc<Mutex<BTreeMap<SocketAddr, Server>>>);

/// An address to which Sardana posts.
#[derive(Debug)]
pub(crate) struct SardanaSource {
    listen: SocketAddr,
    idle: IdleServers,
    server: Rc<RefCell<Option<Server>>>,
}

impl SardanaSource {
    /// Listens at `listen`, an IP address and a port, from the first run on. Reuses the server in
    /// `idle`, if any, and leaves it there when dropped.
    ///
    /// # Errors
    /// The address is invalid; the text says what to write.
    pub(crate) fn new(listen: &str, idle: &IdleServers) -> Result<Self, SourceError> {
        Ok(Self { listen: local_address(listen)?, idle: idle.clone(), server: Rc::default() })
    }
}

/// Parses the address of an HTTP server.
///
/// # Errors
/// The address is invalid; the text says what to write.
pub(super) fn local_address(listen: &str) -> Result<SocketAddr, SourceError> {
    let advice = "not a local address: write an IP address and a port, e.g. 0.0.0.0:8000";
    listen.parse().map_err(|_| SourceError(format!("listen = {listen}: {advice}")))
}

impl Drop for SardanaSource {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.idle.0.lock().insert(self.listen, server);
        }
    }
}

impl Source for SardanaSource {
    fn buffered(&self) -> (usize, usize) {
        (self.server.borrow().as_ref().map_or(0, Server::buffered), BodyLimits::HELD_MAX)
    }

    fn run(&mut self, cx: SourceCx) -> Items {
        cx.link.connecting(0);
        let (sender, posts) = mpsc::channel(POSTS_MAX);
        if self.server.borrow().is_none() {
            let idle = self.idle.0.lock().remove(&self.listen);
            self.server.replace(idle.filter(|server| !server.has_ended()));
        }
        if let Some(server) = &*self.server.borrow() {
            server.set_run(&cx, sender.clone());
            cx.link.up();
        }
        let run = Run {
            listen: self.listen,
            server: self.server.clone(),
            link: LinkState::of_link(cx.link.clone(), RETRY),
            progressed: false,
            sender,
            posts,
            machine: Sardana::default(),
            items: VecDeque::new(),
            outcome_counter: OutcomeCounter::new(cx.clone()),
            cx,
        };
        unfold(run, |mut run| async move { run.next().await.map(|item| (Ok(item), run)) }).boxed_local()
    }
}

struct Run {
    listen: SocketAddr,
    server: Rc<RefCell<Option<Server>>>,
    link: LinkState,
    /// A post was processed.
    progressed: bool,
    /// Sender for the server started in this run.
    sender: mpsc::Sender<AcceptedPost>,
    posts: mpsc::Receiver<AcceptedPost>,
    machine: Sardana,
    items: VecDeque<Item>,
    outcome_counter: OutcomeCounter,
    cx: SourceCx,
}

impl Run {
    async fn next(&mut self) -> Option<Item> {
        self.listening().await;
        while self.items.is_empty() {
            let AcceptedPost { post, frame, .. } = self.posts.recv().await?;
            let outcome = self.machine.feed(post, frame, &mut self.items);
            self.outcome_counter.count(outcome);
            if !std::mem::replace(&mut self.progressed, true) {
                self.link.succeeded();
            }
        }
        self.items.pop_front()
    }

    async fn listening(&mut self) {
        while self.server.borrow().is_none() {
            match Server::start(self.listen, &self.cx, self.sender.clone()).await {
                Ok(server) => {
                    self.server.replace(Some(server));
                    self.link.connected();
                }
                Err(error) => {
                    let reason = format!("{}: {error}: free the port, or change listen", self.listen);
                    self.link.retry(reason).await;
                }
            }
        }
    }
}
