//! Sardana over HTTP (spec §9): it dials us. The server stays from the first run on, since posts outside a mapping are answered, too.

mod server;

use std::{cell::RefCell, collections::VecDeque, net::SocketAddr, rc::Rc, time::Duration};

use futures_util::stream::{StreamExt, unfold};
use orchestrator_edge::Reconnect;
use orchestrator_supervise::Backoff;
use tokio::{sync::mpsc, time::sleep};

use crate::{
    edge::sources::{
        sardana::server::{Posted, Server},
        tally::Tally,
    },
    item::Item,
    protocol::sardana::Sardana,
    source::{Items, Source, SourceCx, SourceError},
};

/// Posts that wait for the run; further ones wait in their requests.
const WAITING: usize = 64;
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(1) };

/// An address that Sardana posts to.
#[derive(Debug)]
pub struct SardanaSource {
    listen: SocketAddr,
    server: Rc<RefCell<Option<Server>>>,
}

impl SardanaSource {
    /// Listens at `listen`, an IP address and a port, from the first run on.
    ///
    /// # Errors
    /// It is none; the text says what to write.
    pub fn new(listen: &str) -> Result<Self, SourceError> {
        let listen = listen.parse().map_err(|_| {
            SourceError(format!(
                "listen = {listen}: no address of ours: write an IP address and a port, e.g. 0.0.0.0:8000"
            ))
        })?;
        Ok(Self { listen, server: Rc::default() })
    }
}

impl Source for SardanaSource {
    fn run(&mut self, cx: SourceCx) -> Items {
        cx.link.connecting(0);
        let (sender, posts) = mpsc::channel(WAITING);
        if let Some(server) = &*self.server.borrow() {
            server.switch(&cx, sender.clone());
            cx.link.up();
        }
        let run = Run {
            listen: self.listen,
            server: self.server.clone(),
            reconnect: Reconnect::new(cx.link.clone(), BACKOFF),
            sender,
            posts,
            machine: Sardana::default(),
            items: VecDeque::new(),
            tally: Tally::new(cx.clone()),
            cx,
        };
        unfold(run, |mut run| async move { run.next().await.map(|item| (Ok(item), run)) }).boxed_local()
    }
}

struct Run {
    listen: SocketAddr,
    server: Rc<RefCell<Option<Server>>>,
    reconnect: Reconnect,
    /// For the server that is started within this run.
    sender: mpsc::Sender<Posted>,
    posts: mpsc::Receiver<Posted>,
    machine: Sardana,
    items: VecDeque<Item>,
    tally: Tally,
    cx: SourceCx,
}

impl Run {
    async fn next(&mut self) -> Option<Item> {
        self.listening().await;
        while self.items.is_empty() {
            let (post, frame) = self.posts.recv().await?;
            let verdict = self.machine.feed(post, frame, &mut self.items);
            self.tally.count(verdict);
        }
        self.items.pop_front()
    }

    async fn listening(&mut self) {
        while self.server.borrow().is_none() {
            match Server::start(self.listen).await {
                Ok(server) => {
                    server.switch(&self.cx, self.sender.clone());
                    self.server.replace(Some(server));
                    self.reconnect.succeeded();
                }
                Err(error) => {
                    let reason = format!("{}: {error}: free the port, or change listen", self.listen);
                    sleep(self.reconnect.failed(reason)).await;
                }
            }
        }
    }
}
