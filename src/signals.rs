//! Signals of the operator.
//!
//! | Signal | Effect |
//! |---|---|
//! | SIGTERM, SIGINT | the first one drains, the second one ends the process at once |
//! | the same one again within [`REPEATED_WITHIN`] | none |
//! | SIGHUP | reloads the configuration; ignored while the process drains |
//! | others that end a process by default | none |

use std::{
    io,
    ops::RangeInclusive,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Time after a stop signal in which the same signal is ignored. `timeout` sends a signal to its child and to
/// the process group, and a supervisor forwards a signal that the terminal has sent to both.
const REPEATED_WITHIN: Duration = Duration::from_millis(500);

/// Ignored signals that end a process by default, with their numbers on Linux. SIGQUIT and the signals of
/// faults keep their meaning. The runtime ignores SIGPIPE. With SIGXFSZ ignored, a write beyond the file size
/// limit fails.
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
/// Numbers of the real-time signals on Linux that programs may use.
const REAL_TIME: RangeInclusive<i32> = 34..=64;

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGTERM or SIGINT, by name.
    Stop(&'static str),
    /// The same stop signal within [`REPEATED_WITHIN`], by name.
    Repeated(&'static str),
    /// SIGHUP.
    Reload,
    /// An ignored signal, by name.
    Ignored(&'static str),
}

/// All signals that the process handles.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, Stream)>,
    stops: Stops,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub(crate) fn new() -> io::Result<Self> {
        let handled = [
            (Signal::Stop("SIGTERM"), SignalKind::terminate()),
            (Signal::Stop("SIGINT"), SignalKind::interrupt()),
            (Signal::Reload, SignalKind::hangup()),
        ];
        let ignored = IGNORED.into_iter().chain(REAL_TIME.map(|number| ("a real-time signal", number)));
        let ignored = ignored.map(|(name, number)| (Signal::Ignored(name), SignalKind::from_raw(number)));
        let streams = handled.into_iter().chain(ignored);
        let streams =
            streams.map(|(meaning, kind)| Ok((meaning, signal(kind)?))).collect::<io::Result<_>>()?;
        Ok(Self { streams, stops: Stops::default() })
    }

    /// Waits for the next signal and returns its effect, by the table of the module.
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

/// The last stop signal that was not a repetition.
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
    fn a_repeated_stop_signal_is_ignored_for_half_a_second() {
        let (mut stops, start) = (Stops::default(), Instant::now());
        let mut count = |name, ms| stops.count(name, start + Duration::from_millis(ms));
        assert_eq!(count("SIGTERM", 0), Signal::Stop("SIGTERM"));
        assert_eq!(count("SIGTERM", 1), Signal::Repeated("SIGTERM"));
        assert_eq!(
            count("SIGTERM", 499),
            Signal::Repeated("SIGTERM"),
            "the interval begins with the first signal"
        );
        assert_eq!(count("SIGTERM", 500), Signal::Stop("SIGTERM"));
        assert_eq!(count("SIGINT", 501), Signal::Stop("SIGINT"), "another signal is no repetition");
        assert_eq!(count("SIGTERM", 502), Signal::Stop("SIGTERM"));
    }
}
