//! Timing of the client's methods, `open` and `close` included, in the metrics and for statsd.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_observe::Timing;
use orchestrator_supervise::{Outbox, Vitals};

/// Duration of one call, for statsd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Name of the method in the original's interface.
    pub method: &'static str,
    /// Duration of the call.
    pub span: Duration,
}

/// Timers of the methods of one child.
#[derive(Debug, Clone)]
pub(crate) struct CallTimers {
    vitals: Arc<Vitals>,
    statsd: Option<Outbox<Sample>>,
}

/// Timer of one call, recorded when dropped: also calls that failed or were abandoned count.
#[derive(Debug)]
pub(crate) struct CallTimer {
    method: &'static str,
    started: Instant,
    timing: Timing,
    statsd: Option<Outbox<Sample>>,
}

impl CallTimers {
    /// Registers `methods`, so that they show in the metrics before their first call.
    pub(crate) fn new(
        vitals: &Arc<Vitals>,
        statsd: Option<Outbox<Sample>>,
        methods: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        let call_timers = Self { vitals: vitals.clone(), statsd };
        methods.into_iter().for_each(|method| drop(call_timers.timing(method)));
        call_timers
    }

    pub(crate) fn start(&self, method: &'static str) -> CallTimer {
        self.start_at(method, Instant::now())
    }

    pub(crate) fn start_at(&self, method: &'static str, started: Instant) -> CallTimer {
        CallTimer { method, started, timing: self.timing(method), statsd: self.statsd.clone() }
    }

    fn timing(&self, method: &'static str) -> Timing {
        let help = "Time from a call of the client to its end, successful or not.";
        self.vitals.register_timing("call_duration", help, ("method", method))
    }
}

impl Drop for CallTimer {
    fn drop(&mut self) {
        let Self { method, started, .. } = *self;
        let span = started.elapsed();
        self.timing.record(span);
        if let Some(statsd) = &self.statsd {
            // A full inbox drops the sample, so that no call waits for statsd. The tree counts it
            // as refused.
            let _ = statsd.tell(Sample { method, span });
        }
    }
}
