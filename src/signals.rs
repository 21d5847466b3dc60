//! The signals of an operator. SIGTERM and SIGINT: the first one drains, the second one ends the process at once, unless it is the same
//! one within [`REPEATED_WITHIN`]. SIGHUP reads the configuration again. Those that would end the process without a drain are ignored.

use std::{
    io,
    ops::RangeInclusive,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// The same signal within so long of the first is counted once: `timeout` sends one to its child and to their process group, and a
/// supervisor passes on the one that a terminal has sent to both.
const REPEATED_WITHIN: Duration = Duration::from_millis(500);

/// Signals that end a process by default and that nobody sends to this one on purpose, by number on Linux. SIGQUIT and the signals of
/// faults keep their meaning; SIGPIPE is ignored by the runtime. A write beyond a limit on file sizes fails in place of SIGXFSZ.
const IGNORED: [(&str, i32); 9] = [
    ("SIGUSR1", 10),
    ("SIGUSR2", 12),
    ("SIGALRM", 14),
    ("SIGSTKFLT", 16),
    ("SIGXFSZ", 25),
    ("SIGVTALRM", 26),
    ("SIGPROF", 27),
    ("SIGIO", 29),
    ("SIGPWR", 30),
];
/// Real-time signals that programs may use on Linux, by number.
const REAL_TIME: RangeInclusive<i32> = 34..=64;

/// One signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGTERM or SIGINT, by name.
    Stop(&'static str),
    /// The same stop again, too soon to be meant.
    Repeated(&'static str),
    /// SIGHUP.
    Reload,
    /// One without a meaning here, by name.
    Ignored(&'static str),
}

/// All signals that the process handles.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, Stream)>,
    stops: Stops,
}

impl Signals {
    /// Takes the signals over from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn new() -> io::Result<Self> {
        let meant = [
            (Signal::Stop("SIGTERM"), SignalKind::terminate()),
            (Signal::Stop("SIGINT"), SignalKind::interrupt()),
            (Signal::Reload, SignalKind::hangup()),
        ];
        let ignored = IGNORED.into_iter().chain(REAL_TIME.map(|number| ("a real-time signal", number)));
        let ignored = ignored.map(|(name, number)| (Signal::Ignored(name), SignalKind::from_raw(number)));
        let streams = meant.into_iter().chain(ignored);
        let streams =
            streams.map(|(meaning, kind)| Ok((meaning, signal(kind)?))).collect::<io::Result<_>>()?;
        Ok(Self { streams, stops: Stops::default() })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Signal {
        let received = std::future::poll_fn(|cx| poll(&mut self.streams, cx)).await;
        match received {
            Signal::Stop(name) => self.stops.count(name, Instant::now()),
            other => other,
        }
    }
}

fn poll(streams: &mut [(Signal, Stream)], cx: &mut Context<'_>) -> Poll<Signal> {
    for (meaning, stream) in streams {
        if Pin::new(stream).poll_recv(cx).is_ready() {
            return Poll::Ready(*meaning);
        }
    }
    Poll::Pending
}

/// The last stop that was counted.
#[derive(Debug, Default)]
struct Stops {
    last: Option<(&'static str, Instant)>,
}

impl Stops {
    fn count(&mut self, name: &'static str, now: Instant) -> Signal {
        let repeated = self
            .last
            .is_some_and(|(last, at)| last == name && now.saturating_duration_since(at) < REPEATED_WITHIN);
        if repeated {
            return Signal::Repeated(name);
        }
        self.last = Some((name, now));
        Signal::Stop(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_signal_counts_once_within_half_a_second() {
        let (mut stops, start) = (Stops::default(), Instant::now());
        let mut count = |name, ms| stops.count(name, start + Duration::from_millis(ms));
        assert_eq!(count("SIGTERM", 0), Signal::Stop("SIGTERM"));
        assert_eq!(count("SIGTERM", 1), Signal::Repeated("SIGTERM"));
        assert_eq!(count("SIGTERM", 499), Signal::Repeated("SIGTERM"), "from the first one on");
        assert_eq!(count("SIGTERM", 500), Signal::Stop("SIGTERM"));
        assert_eq!(count("SIGINT", 501), Signal::Stop("SIGINT"), "another one is meant");
        assert_eq!(count("SIGTERM", 502), Signal::Stop("SIGTERM"));
    }
}
