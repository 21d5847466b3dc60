//! A tree with the reader, the watcher and the inotify edge, on a thread of its own; and a store in memory.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::Write,
    path::PathBuf,
    sync::{Arc, Mutex, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use orchestrator_queue::{
    edge::{
        files::{self, RescanFlag},
        inotify,
    },
    fetcher_watcher::FetcherWatcher,
    file_name::WarnedNames,
    messages::IngestOp,
    storage::{RunId, RunState},
};
use orchestrator_supervise::{
    ChildSpec, Inbox, Origin, Received, StopToken, Strategy, SupervisorSpec, Tree, Verb, inbox, mailbox,
    testing::TestTree,
};

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until a condition holds, at most [`DEADLINE`].
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < give_up, "gave up waiting until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a store would hold. Rows are `attr payload`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) runs: BTreeMap<(String, i64), Run>,
    pub(crate) reconciled: u32,
    /// Every operation, as text.
    pub(crate) log: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) complete: bool,
    pub(crate) rows: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Store(pub(crate) Arc<Mutex<Content>>);

fn key(run: RunId) -> (String, i64) {
    (run.fetcher, run.started)
}

impl Store {
    /// One that knows `runs` from before.
    pub(crate) fn knowing(runs: &[(&str, i64, bool)]) -> Self {
        let store = Self::default();
        for &(fetcher, started, complete) in runs {
            let run = Run { complete, ..Run::default() };
            store.0.lock().expect("lock").runs.insert((fetcher.to_owned(), started), run);
        }
        store
    }

    pub(crate) fn content(&self) -> Content {
        self.0.lock().expect("lock").clone()
    }

    fn serve(&self, mut ops: Inbox<IngestOp>, stop: &StopToken) {
        loop {
            match ops.recv_blocking(stop, None) {
                Received::Item(op) => self.take(op),
                _ => return,
            }
        }
    }

    fn take(&self, op: IngestOp) {
        let content = &mut *self.0.lock().expect("lock");
        match op {
            IngestOp::UpsertRun { run, complete } => {
                content.log.push(format!("upsert {} {} {complete}", run.fetcher, run.started));
                content.runs.entry(key(run)).or_default().complete = complete;
            }
            IngestOp::Rows { run, rows, complete } => {
                let entries = rows.from_position(0);
                content.log.push(format!(
                    "rows {} {} {} {complete}",
                    run.fetcher,
                    run.started,
                    entries.len()
                ));
                let run = content.runs.get_mut(&key(run)).expect("rows of a run that was upserted");
                run.rows.extend(entries.iter().map(|e| (e.attr_path.to_string(), e.payload.to_string())));
                run.complete |= complete;
            }
            IngestOp::DeleteRun { run } => {
                content.log.push(format!("delete {} {}", run.fetcher, run.started));
                content.runs.remove(&key(run));
            }
            IngestOp::Reconciled => {
                content.log.push("reconciled".to_owned());
                content.reconciled += 1;
            }
            IngestOp::KnownRuns { reply } => {
                let state = |(key, run): (&(String, i64), &Run)| RunState {
                    run: RunId::new(key.0.clone(), key.1),
                    complete: run.complete,
                };
                let _ = reply.send(content.runs.iter().map(state).collect());
            }
        }
    }
}

pub(crate) struct House {
    pub(crate) dir: PathBuf,
    pub(crate) store: Store,
    pub(crate) tree: Tree,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    store_stop: StopToken,
    /// Kept for its removal.
    pub(crate) temp: Option<tempfile::TempDir>,
}

impl House {
    /// Starts on an empty directory and waits until it is reconciled.
    pub(crate) fn new() -> Self {
        Self::on(tempfile::tempdir().expect("temporary directory"), Store::default())
    }

    /// Starts on `temp`/in, which may hold files, and waits until it is reconciled.
    pub(crate) fn on(temp: tempfile::TempDir, store: Store) -> Self {
        let house = Self::starting(temp, store, 4096);
        eventually("the first listing is worked in", || house.content().reconciled > 0);
        house
    }

    pub(crate) fn starting(temp: tempfile::TempDir, store: Store, commands_max: usize) -> Self {
        let dir = temp.path().join("in");
        inotify::create_input_dir(&dir).expect("input directory");
        let (ops, ops_slot) = inbox(8);
        let (commands, commands_slot) = inbox(commands_max);
        let (watcher, watcher_slot) = mailbox(64);
        let (flag, warned) = (RescanFlag::default(), WarnedNames::default());
        let reader = files::factory(dir.clone(), &commands_slot, flag.clone(), warned.clone(), ops);
        let spec = SupervisorSpec::new(Strategy::RestForOne)
            .child(ChildSpec::worker("files", reader).pausable())
            .child(
                ChildSpec::worker("watcher", FetcherWatcher::factory(watcher_slot, commands, flag, warned))
                    .pausable(),
            )
            .child(ChildSpec::worker("inotify", inotify::factory(dir.clone(), watcher)).pausable());
        let store_stop = StopToken::new();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (started, tree) = mpsc::channel();
        let threads = vec![
            std::thread::spawn({
                let (store, stop) = (store.clone(), store_stop.clone());
                move || store.serve(ops_slot.open(), &stop)
            }),
            std::thread::spawn(move || {
                TestTree::run(spec, |tree| async move {
                    started.send(tree).expect("the test waits");
                    let _ = stopped.await;
                });
            }),
        ];
        let tree = tree.recv().expect("the tree starts");
        Self { dir, store, tree, stop: Some(stop), threads, store_stop, temp: Some(temp) }
    }

    pub(crate) fn content(&self) -> Content {
        self.store.content()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).expect("write");
    }

    pub(crate) fn create(&self, name: &str) -> File {
        File::create(self.path(name)).expect("create")
    }

    pub(crate) fn append(&self, name: &str, text: &str) {
        let mut file = OpenOptions::new().append(true).open(self.path(name)).expect("open");
        file.write_all(text.as_bytes()).expect("append");
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).expect("rename");
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).expect("remove");
    }

    /// Waits until the store holds exactly these runs, each as (fetcher, number, complete, rows).
    pub(crate) fn holds(&self, runs: &[(&str, i64, bool, &[&str])]) {
        let run = |&(fetcher, started, complete, rows): &(&str, i64, bool, &[&str])| {
            let pair = |row: &&str| {
                row.split_once(' ').map(|(a, p)| (a.to_owned(), p.to_owned())).expect("two words")
            };
            ((fetcher.to_owned(), started), Run { complete, rows: rows.iter().map(pair).collect() })
        };
        let expected: BTreeMap<_, _> = runs.iter().map(run).collect();
        let give_up = Instant::now() + DEADLINE;
        while self.content().runs != expected {
            assert!(Instant::now() < give_up, "expected {expected:#?}, found {:#?}", self.content());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until everything that happened in the directory before has been worked in.
    pub(crate) fn settle(&self) {
        let marker = format!("settle.{}.txt", self.content().log.len());
        self.write(&marker, "");
        let is_there = || self.content().runs.keys().any(|(fetcher, _)| fetcher == "settle");
        eventually("the marker is seen", is_there);
        self.remove(&marker);
        eventually("the marker is gone", || !is_there());
    }

    pub(crate) fn figure(&self, child: &str, name: &str) -> i64 {
        let node = self.tree.node(&format!("test/{child}")).expect("the child is in the tree");
        node.figures.iter().find(|figure| figure.name == name).map_or(0, |figure| figure.value)
    }

    pub(crate) fn command(&self, child: &str, verb: Verb) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        let origin = Origin { by: "test".into(), reason: "part of the test".into() };
        runtime.block_on(self.tree.command(&format!("test/{child}"), verb, &origin)).expect("obeyed");
    }

    fn join(&mut self) {
        self.stop.take();
        self.store_stop.cancel();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() && !std::thread::panicking() {
                panic!("a thread of the house panicked");
            }
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.join();
    }
}
