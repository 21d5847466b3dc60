//! Where items come from. Public: a protocol of your own is a [`Source`] and a line in a [`Registry`].

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::stream::LocalBoxStream;
use orchestrator_supervise::{Factory, LinkReporter, metrics};
use serde::{Deserialize, Serialize};

use crate::item::Item;

/// The items of one run, in order. Dropping it closes what it holds, with all that is buffered in it.
pub type Items = LocalBoxStream<'static, Result<Item, SourceError>>;

/// A source of one stream.
///
/// For each mapping that uses the stream there is one run: `run`, then `finish` if all events of the mapping were ingested,
/// then `stop` exactly once, on every way out: restart, error, end, shutdown.
pub trait Source {
    /// Connects, and gives the items. What is not polled is not read, so that a sender is slowed where its protocol allows that.
    /// An error ends the run; a peer that is away is none: it is waited for, and `cx.link` tells of it.
    fn run(&mut self, cx: SourceCx) -> Items;

    /// Does the sender wait when its items are not taken? Where it does not (publish and subscribe), items that there is no room for
    /// are lost and counted, and a mapping is begun only once the source is connected.
    fn can_wait(&self) -> bool {
        true
    }

    /// All events of the mapping were ingested.
    fn finish(&mut self) {}

    /// The run has ended, and its items are dropped.
    fn stop(&mut self) {}
}

/// What a run is given.
#[derive(Debug, Clone)]
pub struct SourceCx {
    /// Name of the stream.
    pub stream: Arc<str>,
    /// Where it tells of its connection.
    pub link: LinkReporter,
    /// What it counts.
    pub counts: SourceCounts,
}

metrics! {
    /// Counters of a source. They go on over runs.
    pub struct SourceCounts {
        /// Messages that are invalid in their protocol, thrown away.
        pub invalid: counter("messages") as "invalid_messages",
        /// Items of a source that cannot be slowed, lost because nobody took them in time.
        pub lost: counter("items") as "lost_items",
        /// Messages before a start, after an end, and second starts, thrown away.
        pub outside: counter("messages") as "outside_scans",
        /// Connections to a source made anew within a run.
        pub reconnects: counter("") as "source_reconnects",
    }
}

/// Why a run ended early. The text says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// Where a stream's items come from, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Place {
    /// The address of a source that is dialled, e.g. `tcp://detector:9999`.
    pub upstream_url: Option<String>,
    /// The address that a source which is dialled listens at, e.g. `0.0.0.0:8000`.
    pub listen: Option<String>,
    /// A file to be played: a dump, or a raw capture.
    pub file: Option<String>,
    /// How fast a file is played: `recorded`, or a rate such as `1000/s`; as fast as it is taken if it is not given.
    pub pace: Option<String>,
}

/// Makes the source of one run.
pub type MakeSource = Arc<dyn Fn(&Place) -> Result<Box<dyn Source>, SourceError> + Send + Sync>;

/// What feeds one stream.
pub struct Supply {
    /// Makes the source of each run.
    pub make: MakeSource,
    /// What runs beside all its runs, as a child of its own that is there before the first one: a thread for what blocks.
    pub companion: Option<Factory>,
}

/// Makes what feeds one stream.
type MakeSupply = Arc<dyn Fn(&Place) -> Result<Supply, SourceError> + Send + Sync>;

/// The known protocols, by the names they are configured with.
#[derive(Clone, Default)]
pub struct Registry {
    kinds: BTreeMap<String, MakeSupply>,
}

impl Registry {
    /// Adds or replaces the protocol `name`. `make` fails, with what to do, if the place does not fit.
    #[must_use]
    pub fn with(
        self,
        name: &str,
        make: impl Fn(&Place) -> Result<Box<dyn Source>, SourceError> + Send + Sync + 'static,
    ) -> Self {
        let make: MakeSource = Arc::new(make);
        self.with_supply(name, move |place| {
            // Whether the place fits is to be known now.
            make(place)?;
            Ok(Supply { make: make.clone(), companion: None })
        })
    }

    /// As [`Registry::with`], for a protocol that needs a companion.
    #[must_use]
    pub fn with_supply(
        mut self,
        name: &str,
        supply: impl Fn(&Place) -> Result<Supply, SourceError> + Send + Sync + 'static,
    ) -> Self {
        self.kinds.insert(name.to_owned(), Arc::new(supply));
        self
    }

    /// What feeds a stream of the protocol `name` from `place`; None if there is no such protocol.
    ///
    /// # Errors
    /// The place does not fit; the text says what to do.
    pub fn supply(&self, name: &str, place: &Place) -> Option<Result<Supply, SourceError>> {
        self.kinds.get(name).map(|supply| supply(place))
    }

    /// Makes sources of the protocol `name`. One that has a companion does nothing without it: see [`Registry::supply`].
    pub fn get(&self, name: &str) -> Option<MakeSource> {
        let supply = self.kinds.get(name)?.clone();
        Some(Arc::new(move |place| (supply(place)?.make)(place)))
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }
}

impl fmt::Debug for Supply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supply").field("companion", &self.companion).finish_non_exhaustive()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kinds.keys()).finish()
    }
}
