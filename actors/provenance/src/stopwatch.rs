//! How long each method of the client takes, open and close included: for tree and metrics, and for statsd where that is
//! asked for.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_supervise::{Outbox, Timing, Vitals};

/// One call's duration on its way to statsd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The method, by its name in the original's interface.
    pub method: &'static str,
    /// How long it took.
    pub span: Duration,
}

/// Times the methods of one child.
#[derive(Debug, Clone)]
pub(crate) struct Stopwatch {
    vitals: Arc<Vitals>,
    statsd: Option<Outbox<Sample>>,
}

/// One call. It counts when it is dropped, whatever became of it: a call that was given up took its time, too.
#[derive(Debug)]
pub(crate) struct Lap {
    method: &'static str,
    begun: Instant,
    timing: Timing,
    statsd: Option<Outbox<Sample>>,
}

impl Stopwatch {
    /// For the child with these vitals. `methods` show in the metrics before their first call.
    pub(crate) fn new(
        vitals: &Arc<Vitals>,
        statsd: Option<Outbox<Sample>>,
        methods: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        let stopwatch = Self { vitals: vitals.clone(), statsd };
        methods.into_iter().for_each(|method| drop(stopwatch.timing(method)));
        stopwatch
    }

    /// A call of `method` begins.
    pub(crate) fn start(&self, method: &'static str) -> Lap {
        self.start_at(method, Instant::now())
    }

    /// A call of `method` that began at `begun`.
    pub(crate) fn start_at(&self, method: &'static str, begun: Instant) -> Lap {
        Lap { method, begun, timing: self.timing(method), statsd: self.statsd.clone() }
    }

    fn timing(&self, method: &'static str) -> Timing {
        let help = "Time from a call of the client to its end, successful or not.";
        self.vitals.register_timing("call_duration", help, ("method", method))
    }
}

impl Drop for Lap {
    fn drop(&mut self) {
        let Self { method, begun, .. } = *self;
        let span = begun.elapsed();
        self.timing.record(span);
        if let Some(statsd) = &self.statsd {
            // No place left: statsd may miss one, a call may not wait for it. The refusal shows in the tree.
            let _ = statsd.tell(Sample { method, span });
        }
    }
}
