//! A source under test, in a child with link and metrics.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use orchestrator_observe::Link;
use orchestrator_supervise::{ChildSpec, Factory, Strategy, SupervisorSpec, Vitals, testing::TestTree};

use crate::{
    item::Item,
    source::{Items, Registry, Source, SourceCounts, SourceCx, SourceError, SourceOptions},
};

/// Time-out of each step, generous for a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Vitals and counters of the source.
pub(crate) struct Bench {
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) counts: SourceCounts,
}

impl Bench {
    pub(crate) fn cx(&self, stream: &str) -> SourceCx {
        let link = self.vitals.link("source", "in a test");
        SourceCx { stream: stream.into(), mapping: 1, link, counts: self.counts.clone() }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.vitals.link_state(), Some((_, _, Link::Up { .. })))
    }

    /// Reason why the link is down, if it is.
    pub(crate) fn down(&self) -> Option<String> {
        match self.vitals.link_state() {
            Some((_, _, Link::Down { failure, .. })) => Some(failure.reason),
            _ => None,
        }
    }
}

/// Runs `test` with a child's vitals.
pub(crate) fn bench<Fut: Future<Output = ()>>(test: impl FnOnce(Bench) -> Fut) {
    run(None, test);
}

/// Like [`bench`], with a source whose reader child runs beside it.
pub(crate) fn bench_with_reader_child<Fut: Future<Output = ()>>(
    name: &str,
    options: &SourceOptions,
    test: impl FnOnce(Bench, Box<dyn Source>) -> Fut,
) {
    let factory =
        Registry::standard().factory(name, options).expect("a known name").expect("a place that fits");
    let source = (factory.make)(options).expect("a source");
    run(Some(factory.reader_child.expect("it has one")), |bench| test(bench, source));
}

fn run<Fut: Future<Output = ()>>(reader_child: Option<Factory>, test: impl FnOnce(Bench) -> Fut) {
    let (sender, mut vitals) = tokio::sync::mpsc::unbounded_channel();
    let child = Factory::task(move |cx| {
        let _ = sender.send(cx.vitals.clone());
        async move {
            cx.stop.cancelled().await;
            Ok(())
        }
    });
    let readers = reader_child.map(|one| ChildSpec::worker("reader", one)).into_iter();
    let spec = readers.fold(SupervisorSpec::new(Strategy::RestForOne), SupervisorSpec::child);
    TestTree::run(spec.child(ChildSpec::worker("source", child)), |_tree| async move {
        let vitals = vitals.recv().await.expect("the child starts");
        test(Bench { counts: SourceCounts::register(&vitals), vitals }).await;
    });
}

/// A source by its name in the registry.
pub(crate) fn make(name: &str, options: &SourceOptions) -> Result<Box<dyn Source>, SourceError> {
    Registry::standard().get(name).expect("a known name")(options)
}

pub(crate) fn upstream(port: u16) -> SourceOptions {
    SourceOptions { upstream_url: Some(format!("tcp://127.0.0.1:{port}")), ..SourceOptions::default() }
}

pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("gave up waiting for {what}"))
}

pub(crate) async fn item(items: &mut Items) -> Item {
    in_time("an item", items.next()).await.expect("no end").expect("no error")
}

pub(crate) async fn take(items: &mut Items, count: usize) -> Vec<Item> {
    let mut taken = Vec::new();
    for _ in 0..count {
        taken.push(item(items).await);
    }
    taken
}

/// Polls the source, which has no items, until `condition` holds.
pub(crate) async fn until(items: &mut Items, what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        biased;
        item = items.next() => panic!("an item while waiting for {what}: {item:?}"),
        () = in_time(what, waiting) => {}
    }
}
