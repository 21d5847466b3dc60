//! A tree with one child, the worker socket, on a thread of its own; and a store in memory.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use orchestrator_queue::{
    edge::worker_socket::{Service, factory},
    messages::StoreRequest,
    storage::{HandoutId, Job},
};
use orchestrator_supervise::{
    ChildSpec, Inbox, Received, StopToken, Strategy, SupervisorSpec, Tree, inbox, testing::TestTree,
};

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A service whose limits no test runs into by accident.
pub(crate) fn service() -> Service {
    Service { connections_max: Some(1000), write_stall: Duration::from_secs(10) }
}

pub(crate) struct House {
    pub(crate) path: PathBuf,
    pub(crate) tree: Tree,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _dir: Option<tempfile::TempDir>,
}

impl House {
    /// The socket in a fresh directory; the test plays the store.
    pub(crate) fn with_inbox(service: Service) -> (Self, Inbox<StoreRequest>) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("worker.sock");
        let (mut house, requests) = Self::at(&path, service);
        house._dir = Some(dir);
        (house, requests)
    }

    /// The socket in a fresh directory, with `store` behind it.
    pub(crate) fn with_store(service: Service, store: &Store) -> Self {
        let (house, requests) = Self::with_inbox(service);
        store.serve(requests);
        house
    }

    pub(crate) fn at(path: &Path, service: Service) -> (Self, Inbox<StoreRequest>) {
        let (outbox, slot) = inbox(1024);
        let spec = SupervisorSpec::new(Strategy::OneForOne)
            .child(ChildSpec::worker("worker_socket", factory(path.to_owned(), service, outbox)).pausable());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (started, tree) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            TestTree::run(spec, |tree| async move {
                started.send(tree).expect("the test waits");
                let _ = stopped.await;
            });
        });
        let tree = tree.recv().expect("the tree starts");
        let house = Self { path: path.to_owned(), tree, stop: Some(stop), thread: Some(thread), _dir: None };
        (house, slot.open())
    }

    /// Connects, waiting until the socket is there.
    pub(crate) fn connect(&self) -> Client {
        eventually("the socket is there", || UnixStream::connect(&self.path).ok()).into()
    }

    pub(crate) fn figure(&self, name: &str) -> i64 {
        let node = self.tree.node("test/worker_socket").expect("the child is in the tree");
        let figure = node.figures.iter().find(|figure| figure.name == name);
        figure.map_or(0, |figure| figure.value)
    }

    /// Asks the tree to stop without waiting for it.
    pub(crate) fn begin_stop(&mut self) {
        self.stop.take();
    }

    pub(crate) fn stop(mut self) {
        self.begin_stop();
        self.thread.take().expect("stopped once").join().expect("the tree stops");
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the tree did not stop");
        }
    }
}

/// Waits for a value, at most [`DEADLINE`].
pub(crate) fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < give_up, "gave up waiting until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A worker.
pub(crate) struct Client(pub(crate) BufReader<UnixStream>);

impl From<UnixStream> for Client {
    fn from(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).expect("time-out");
        Self(BufReader::new(stream))
    }
}

impl Client {
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.get_mut().write_all(bytes.as_ref()).expect("write");
        self
    }

    /// One reply, without its newline; empty at the end of the connection.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        // A reset is an end, too: the server may close with bytes of ours unread.
        let _ = self.0.read_line(&mut line);
        line.trim_end_matches('\n').to_owned()
    }

    /// Everything until the end of the connection.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = String::new();
        let _ = self.0.read_to_string(&mut rest);
        rest
    }
}

/// A store in memory, first in, first out.
#[derive(Clone, Default)]
pub(crate) struct Store {
    pub(crate) jobs: Arc<Mutex<VecDeque<Job>>>,
    /// What it was told, as text.
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

impl Store {
    pub(crate) fn with_jobs(jobs: &[(&str, &str)]) -> Self {
        let store = Self::default();
        store.jobs.lock().expect("lock").extend(jobs.iter().zip(1..).map(|(&(attr_path, payload), id)| {
            Job { attr_path: attr_path.to_owned(), payload: payload.to_owned(), handout: HandoutId(id) }
        }));
        store
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().expect("lock").clone()
    }

    /// Answers until every sender is gone.
    pub(crate) fn serve(&self, mut requests: Inbox<StoreRequest>) {
        let store = self.clone();
        std::thread::spawn(move || {
            let never = StopToken::new();
            while let Received::Item(request) =
                requests.recv_blocking(&never, Some(Instant::now() + DEADLINE))
            {
                store.take(request);
            }
        });
    }

    fn take(&self, request: StoreRequest) {
        let note = |text: String| self.log.lock().expect("lock").push(text);
        let reply = match request {
            StoreRequest::Ready { reply } => {
                note("ready".to_owned());
                reply
            }
            StoreRequest::Done { attr_path, exit_code, reply } => {
                note(format!("done {attr_path:.20} {exit_code}"));
                reply
            }
            StoreRequest::Delivered(handout) => return note(format!("delivered {}", handout.0)),
            StoreRequest::Undo(handout) => return note(format!("undo {}", handout.0)),
            StoreRequest::Requeue { .. } => panic!("no worker can ask for this"),
        };
        let job = self.jobs.lock().expect("lock").pop_front();
        if let Err(job) = reply.send(job) {
            note(format!("nobody waits for {}", job.map_or(0, |job| job.handout.0)));
        }
    }
}
