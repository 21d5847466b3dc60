//! Sources of items. A protocol outside this crate implements [`Source`] and is added to a
//! [`Registry`].

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::stream::LocalBoxStream;
use orchestrator_observe::{LinkReporter, metrics};
use orchestrator_supervise::Factory;
use serde::{Deserialize, Serialize};

use crate::{class_path::ClassPath, item::Item};

/// Items of one run, in order. Dropping it closes the source's connection and drops all buffered
/// items.
pub type Items = LocalBoxStream<'static, Result<Item, SourceError>>;

/// Source of one stream.
///
/// Each mapping that uses the stream has one run: `run`, then `finish` if all events of the mapping
/// were ingested. `stop` follows exactly once, after a restart, error, end or shutdown.
pub trait Source {
    /// Connects and returns the items. Items that are not polled are not read, which slows the
    /// sender where the protocol allows it. An error ends the run. A peer that is away is not an
    /// error: the source retries and reports it to `cx.link`.
    fn run(&mut self, cx: SourceCx) -> Items;

    /// Returns true if the sender waits while its items are not read. Otherwise (publish and
    /// subscribe) items without room are lost and counted, and a mapping starts only after the
    /// source is connected.
    fn has_backpressure(&self) -> bool {
        true
    }

    /// Returns true if a mapping must wait until the source reports its connection, because frames
    /// sent before are lost.
    fn connects_first(&self) -> bool {
        !self.has_backpressure()
    }

    /// Returns true if [`Item::number`] is the number of the item's event. Events without an item
    /// belong to other ingesters of the stream (CONTRACT IO14).
    fn numbers_events(&self) -> bool {
        false
    }

    /// Bytes that the source has received and not returned yet, and their upper bound; zeros if they are few.
    fn buffered(&self) -> (usize, usize) {
        (0, 0)
    }

    /// Called when all events of the mapping were ingested.
    fn finish(&mut self) {}

    /// Called after the run has ended and its items are dropped.
    fn stop(&mut self) {}
}

/// Context of a run.
#[derive(Debug, Clone)]
pub struct SourceCx {
    /// Name of the stream.
    pub stream: Arc<str>,
    /// Number of the mapping in this process, from 1.
    pub mapping: u64,
    /// Receiver of the state of the connection.
    pub link: LinkReporter,
    /// Counters of the source.
    pub counts: SourceCounts,
}

metrics! {
    /// Counters of a source over all runs.
    pub struct SourceCounts {
        /// Messages dropped as invalid in their protocol.
        pub invalid: counter("messages") as "invalid_messages",
        /// Items lost because a source without backpressure sent faster than workers took them.
        pub lost: counter("items") as "lost_items",
        /// Messages dropped because they arrived before the start or after the end of a scan, and repeated
        /// starts.
        pub outside: counter("messages") as "outside_scans",
        /// Reconnects to a source during a mapping.
        pub reconnects: counter("") as "source_reconnects",
    }
}

/// Reason why a run ended early. The text says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// Configured options of a source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceOptions {
    /// Address of a source that is dialled, e.g. `tcp://detector:9999`.
    pub upstream_url: Option<String>,
    /// Address on which a source connects, e.g. `0.0.0.0:8000`.
    pub listen: Option<String>,
    /// File to replay: a dump, or a raw capture.
    pub file: Option<String>,
    /// Replay speed: `full`, `recorded`, or a rate such as `1000/s`. None: full speed.
    pub pace: Option<String>,
}

/// Creates the source of one run.
pub type MakeSource = Arc<dyn Fn(&SourceOptions) -> Result<Box<dyn Source>, SourceError> + Send + Sync>;

/// Factory of one stream's sources.
pub struct SourceFactory {
    /// Creates the source of each run.
    pub make: MakeSource,
    /// Child that runs beside all runs and starts before the first, e.g. a thread for blocking
    /// reads.
    pub reader_child: Option<Factory>,
}

/// Creates the factory of one stream.
type MakeFactory = Arc<dyn Fn(&SourceOptions) -> Result<SourceFactory, SourceError> + Send + Sync>;

/// Source protocols by configured name.
#[derive(Clone, Default)]
pub struct Registry {
    kinds: BTreeMap<String, MakeFactory>,
}

impl Registry {
    /// Adds or replaces the protocol `name`. `make` returns an error if the options do not fit the
    /// protocol.
    #[must_use]
    pub fn with(
        self,
        name: &str,
        make: impl Fn(&SourceOptions) -> Result<Box<dyn Source>, SourceError> + Send + Sync + 'static,
    ) -> Self {
        let make: MakeSource = Arc::new(make);
        self.with_factory(name, move |options| {
            // Reports options that do not fit when the configuration is checked.
            make(options)?;
            Ok(SourceFactory { make: make.clone(), reader_child: None })
        })
    }

    /// Like [`Registry::with`], for a protocol with a reader child.
    #[must_use]
    pub fn with_factory(
        mut self,
        name: &str,
        factory: impl Fn(&SourceOptions) -> Result<SourceFactory, SourceError> + Send + Sync + 'static,
    ) -> Self {
        self.kinds.insert(name.to_owned(), Arc::new(factory));
        self
    }

    /// Factory of the protocol `name` with `options`; None if the protocol is unknown. A class of
    /// dranspose may be named with its module.
    ///
    /// # Errors
    /// The options do not fit; the text says what to do.
    pub fn factory(&self, name: &str, options: &SourceOptions) -> Option<Result<SourceFactory, SourceError>> {
        self.kinds.get(ClassPath::without_dranspose(name)).map(|factory| factory(options))
    }

    /// Creates sources of the protocol `name`. A source with a reader child needs that child to run: see
    /// [`Registry::factory`].
    pub fn get(&self, name: &str) -> Option<MakeSource> {
        let factory = self.kinds.get(name)?.clone();
        Some(Arc::new(move |options| (factory(options)?.make)(options)))
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }
}

impl fmt::Debug for SourceFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceFactory").field("reader_child", &self.reader_child).finish_non_exhaustive()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kinds.keys()).finish()
    }
}
