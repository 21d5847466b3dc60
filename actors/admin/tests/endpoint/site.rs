//! A small tree with an endpoint, and a client for raw HTTP.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use orchestrator_admin::{AdminConfig, Binding, ProgramInfo, child_spec};
use orchestrator_observe::{LinkReporter, MetricKind};
use orchestrator_subsystem::{
    Console, ConsoleError, ConsoleReply, ConsoleVerb, Effect, VerbSchemas,
    wire::{ErrorBody, TreeSnapshot},
};
use orchestrator_supervise::{
    Child, ChildCx, ChildSpec, Factory, Handle, Handled, Mailbox, Message, Placement, Strategy,
    SupervisorSpec, Tree, mailbox, testing::TestTree,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};

mod numbers;

pub(crate) use numbers::pages_read;

/// Child with a console, a link and a metric.
pub(crate) struct Store;

/// Message that makes the store block its arbiter for a time.
pub(crate) struct Block(pub(crate) Duration);

impl Message for Block {
    type Result = ();
}

impl Child for Store {}

impl Handle<Block> for Store {
    fn handle(&mut self, block: Block, _cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        std::thread::sleep(block.0);
        Handled::done()
    }
}

/// Verb of the store with any arguments, by its position in [`VERBS`].
#[derive(serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Verb<const N: usize>(Value);

const VERBS: [&str; 6] = ["echo", "look", "picky", "busy", "hang", "panic"];

impl<const N: usize> Message for Verb<N> {
    type Result = ConsoleReply;
}

impl<const N: usize> Handle<Verb<N>> for Store {
    fn handle(&mut self, Verb(args): Verb<N>, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ConsoleReply> {
        match VERBS[N] {
            "echo" => Handled::now(Ok(json!({ "echo": args }))),
            "look" => Handled::now(Ok(json!({ "seen": true }))),
            "picky" => Handled::now(Err(ConsoleError::BadArguments("`n` is missing".to_owned()))),
            "busy" => Handled::now(Err(ConsoleError::Refused("the store is draining".to_owned()))),
            "hang" => cx.atomically(std::future::pending::<()>(), |_, (), _| Ok(Value::Null)),
            _ => panic!("requested by the test"),
        }
    }
}

fn verb<const N: usize>(store: &Mailbox<Store>) -> ConsoleVerb {
    let effect = if VERBS[N] == "look" { Effect::Reads } else { Effect::Changes };
    let schemas = || VerbSchemas { arguments: json!({ "type": "object" }), answer: json!({}) };
    ConsoleVerb::new::<Verb<N>, _>(VERBS[N], effect, schemas, store.recipient())
}

fn verbs(store: &Mailbox<Store>) -> [ConsoleVerb; 6] {
    [
        verb::<0>(store),
        verb::<1>(store),
        verb::<2>(store),
        verb::<3>(store),
        verb::<4>(store),
        verb::<5>(store),
    ]
}

/// A running tree with its endpoint.
pub(crate) struct Site {
    pub(crate) tree: Tree,
    pub(crate) store: Mailbox<Store>,
    pub(crate) link: LinkReporter,
    pub(crate) tcp: SocketAddr,
    pub(crate) socket: PathBuf,
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn tree(&self) -> TreeSnapshot {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status and message of an error response, after a check of its form.
    pub(crate) fn error(&self) -> (u16, String) {
        let body: ErrorBody =
            serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert_eq!(body.error.status(), self.status, "{self:?}");
        (self.status, body.message)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }
}

/// Repeats a request until `read` finds something in its answer.
pub(crate) async fn wait_for<T>(what: &str, read: impl AsyncFn() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = read().await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.unwrap_or_else(|_| panic!("{what} is missing"))
}

/// Runs `test` on a site whose link is up.
pub(crate) fn run<Fut: Future<Output = ()>>(test: impl FnOnce(Site) -> Fut) {
    run_with(|_| {}, ProgramInfo::default(), test);
}

/// Runs `test` on a site with a changed configuration.
pub(crate) fn run_with<Fut: Future<Output = ()>>(
    change: impl FnOnce(&mut AdminConfig),
    program_info: ProgramInfo,
    test: impl FnOnce(Site) -> Fut,
) {
    let directory = tempfile::tempdir().unwrap();
    let (store, spec) = subtree();
    let mut config = config(&directory);
    change(&mut config);
    let admin = child_spec(&config, Binding::Required, program_info);
    let root = SupervisorSpec::new(Strategy::OneForOne).child(spec).child(admin);
    TestTree::run(root, |tree| async move {
        let link = tree.vitals("demo/store").unwrap().link("fake", "fake:1");
        link.up();
        let tcp = tcp_address(&tree);
        test(Site { tree, store, link, tcp, socket: directory.path().join("admin.sock") }).await;
        drop(directory);
    });
}

pub(crate) fn config(directory: &TempDir) -> AdminConfig {
    AdminConfig {
        listen: "127.0.0.1:0".to_owned(),
        unix_socket: Some(directory.path().join("admin.sock")),
        history_dir: Some(directory.path().to_owned()),
        ..AdminConfig::default()
    }
}

/// The supervisor `demo` with a store on its own arbiter, a source that can be paused, and a task that ends
/// by itself.
pub(crate) fn subtree() -> (Mailbox<Store>, ChildSpec) {
    let (store, slot) = mailbox::<Store>(16);
    let worker = Factory::actor(slot, |cx| {
        cx.vitals.register("hand_outs", "jobs", MetricKind::Counter, "Jobs handed out.").add(3);
        cx.vitals
            .register_timing("call_duration", "Time from a call to its end.", ("method", "get"))
            .record(Duration::from_millis(3));
        Ok(Store)
    });
    let source = Factory::task(|cx| async move {
        cx.stop.cancelled().await;
        Ok(())
    });
    let brief = Factory::task(|_cx| async { Ok(()) });
    let demo = SupervisorSpec::new(Strategy::OneForOne)
        .child(
            ChildSpec::worker("store", worker)
                .placement(Placement::Dedicated)
                .attach(Console::new(verbs(&store))),
        )
        .child(ChildSpec::worker("source", source).label("the \"tap\"").pausable())
        .child(ChildSpec::worker("brief", brief).restart(orchestrator_supervise::Restart::Transient));
    (store, ChildSpec::supervisor("demo", demo).attach(numbers::exports()))
}

pub(crate) fn tcp_address(tree: &Tree) -> SocketAddr {
    let endpoint = tree.vitals("admin").unwrap().link_state().unwrap().1;
    let first = endpoint.split(' ').next().unwrap();
    first.strip_prefix("http://").unwrap().parse().unwrap()
}

impl Site {
    pub(crate) fn metric(&self, name: &str) -> i64 {
        let node = self.tree.node("admin").unwrap();
        node.metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}")).value
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await
    }

    pub(crate) async fn get_text(&self, path: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n")).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Reply {
        self.send(&post(path, body)).await
    }

    /// Sends raw text over TCP.
    pub(crate) async fn send(&self, request: &str) -> Reply {
        exchange(TcpStream::connect(self.tcp).await.unwrap(), request).await
    }

    /// Sends raw text over the unix socket.
    pub(crate) async fn send_unix(&self, request: &str) -> Reply {
        exchange(UnixStream::connect(&self.socket).await.unwrap(), request).await
    }
}

pub(crate) fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Sends one request and reads the response to its end.
pub(crate) async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Reply {
    // The endpoint may respond before it has read the whole request.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "no response to {request}");
    parse(&String::from_utf8(answer).unwrap())
}

fn parse(answer: &str) -> Reply {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no header in `{answer}`"));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
    assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "responses have a length: {head}");
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}
