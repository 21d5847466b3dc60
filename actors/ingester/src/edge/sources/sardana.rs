//! Sardana over HTTP (CONTRACT IP25, IP28). The server is open from the start of the ingester to its
//! end, since posts outside a mapping are answered, too.

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
use orchestrator_ingester_protocols::sardana::Sardana;
use orchestrator_observe::metrics;
use orchestrator_supervise::{Factory, Fault, StartCx};
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
    source::{Items, Source, SourceCx, SourceError},
};

/// Posts that wait for the run; further ones wait in their requests.
const POSTS_MAX: usize = 64;

metrics! {
    /// Counter of the server itself; each source counts the posts outside of its scans.
    struct IdleCounts {
        /// Posts before the first mapping; they are answered and dropped.
        outside: counter("messages") as "outside_scans",
    }
}

/// Servers that sources use, or that wait for one: each mapping has a new source, but the port must
/// stay open in between. None: a source has the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Servers(Arc<Mutex<BTreeMap<SocketAddr, Option<Server>>>>);

impl Servers {
    /// Takes the server at `listen` for a source, unless another has it or it has ended.
    fn take(&self, listen: SocketAddr) -> Option<Server> {
        self.0.lock().get_mut(&listen)?.take().filter(|server| !server.has_ended())
    }

    /// Child that opens the server at `listen` before the first mapping, and closes it at the end.
    pub(super) fn server_child(&self, listen: SocketAddr) -> Factory {
        let servers = self.clone();
        Factory::task(move |cx: StartCx| servers.clone().keep_open(listen, cx))
    }

    async fn keep_open(self, listen: SocketAddr, cx: StartCx) -> Result<(), Fault> {
        let link = LinkState::new(&cx, "http", listen.to_string(), RETRY);
        let outside = IdleCounts::register(&cx.vitals).outside;
        let (nobody, _) = mpsc::channel(1);
        while !self.0.lock().contains_key(&listen) {
            match Server::start(listen, outside.clone(), nobody.clone()).await {
                Ok(server) => drop(self.0.lock().insert(listen, Some(server))),
                Err(error) if link.retry(in_use(listen, &error)).await => {}
                Err(_) => return Ok(()),
            }
        }
        link.connected();
        link.stopped().await;
        self.0.lock().retain(|address, server| *address != listen || server.is_none());
        Ok(())
    }
}

/// Text of a link that is down because the server cannot listen.
fn in_use(listen: SocketAddr, error: &std::io::Error) -> String {
    format!("{listen}: {error}: free the port, or change listen")
}

/// An address to which Sardana posts.
#[derive(Debug)]
pub(crate) struct SardanaSource {
    listen: SocketAddr,
    servers: Servers,
    server: Rc<RefCell<Option<Server>>>,
}

impl SardanaSource {
    /// Takes posts at `listen` by the server of `servers`, and opens one if there is none.
    pub(crate) fn new(listen: SocketAddr, servers: &Servers) -> Self {
        Self { listen, servers: servers.clone(), server: Rc::default() }
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
            self.servers.0.lock().insert(self.listen, Some(server));
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
            self.server.replace(self.servers.take(self.listen));
        }
        if let Some(server) = &*self.server.borrow() {
            server.set_run(&cx, sender.clone());
            cx.link.up();
        }
        let run = SardanaRun {
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

struct SardanaRun {
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

impl SardanaRun {
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
            match Server::start(self.listen, self.cx.counts.outside.clone(), self.sender.clone()).await {
                Ok(server) => {
                    self.server.replace(Some(server));
                    self.link.connected();
                }
                Err(error) => drop(self.link.retry(in_use(self.listen, &error)).await),
            }
        }
    }
}
