//! The limit on log lines of one kind: [`BURST`] lines at once, then one line with their number every [`PERIOD`].
//!
//! Lines are of one kind when one place in the code writes them. Lines about commands that were carried out, and lines below
//! `info`, which somebody asked for, have no limit.

use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use orchestrator_admin::AUDIT_TARGET;
use orchestrator_supervise::sanitize_to;
use tracing::{
    Event, Level, Metadata, Subscriber,
    callsite::Identifier,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Filter};

/// Lines of one kind that are logged before the rest is counted.
const BURST: u32 = 10;
/// Time between two lines with the number of those left out.
const PERIOD: Duration = Duration::from_secs(10);
/// Longest example of a line left out, bytes.
const EXAMPLE_MAX: usize = 120;
/// Target of events that come from the `log` crate; their own is in a field.
const LOG_CRATE: &str = "log";
/// Name of that field.
const LOG_TARGET: &str = "log.target";

/// The limit. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct RateLimit(Arc<Mutex<HashMap<Kind, Window>>>);

/// Place in the code that logs, and the target of its lines.
type Kind = (Identifier, String);

/// Lines of one kind since `began`.
#[derive(Debug)]
struct Window {
    began: Instant,
    passed: u32,
    left_out: u64,
    example: String,
}

/// Lines of one kind that were left out within one [`PERIOD`].
#[derive(Debug, PartialEq, Eq)]
struct LeftOut {
    target: String,
    count: u64,
    example: String,
}

impl RateLimit {
    /// Time between two calls of [`Self::report`]: the numbers are late by so much at the most.
    pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(1);

    /// Logs how many lines of each kind were left out in the last period; `all`: also in those that still run.
    pub(crate) fn report(&self, all: bool) {
        for LeftOut { target, count, example } in self.due(Instant::now(), all) {
            tracing::warn!(
                count,
                of = target,
                example,
                "log lines left out: more than {BURST} of a kind at once"
            );
        }
    }

    fn due(&self, now: Instant, all: bool) -> Vec<LeftOut> {
        let mut due = Vec::new();
        self.lock().retain(|(_, target), window| {
            if !all && now.saturating_duration_since(window.began) < PERIOD {
                return true;
            }
            let count = std::mem::take(&mut window.left_out);
            if count == 0 {
                return false;
            }
            due.push(LeftOut { target: target.clone(), count, example: std::mem::take(&mut window.example) });
            // The flood may go on: nothing but its number is logged until a period was quiet.
            (window.began, window.passed) = (now, BURST);
            true
        });
        due
    }

    /// Counts a line; true if it is logged. `example` is asked for its text if it is the first one left out.
    fn admit(&self, kind: Kind, now: Instant, example: impl FnOnce() -> String) -> bool {
        let mut kinds = self.lock();
        let window = kinds.entry(kind);
        let window =
            window.or_insert_with(|| Window { began: now, passed: 0, left_out: 0, example: String::new() });
        if window.left_out == 0 && now.saturating_duration_since(window.began) >= PERIOD {
            (window.began, window.passed) = (now, 0);
        }
        if window.passed < BURST {
            window.passed += 1;
            return true;
        }
        if window.left_out == 0 {
            window.example = example();
        }
        window.left_out += 1;
        false
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Kind, Window>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<S: Subscriber> Filter<S> for RateLimit {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO || metadata.target() == AUDIT_TARGET {
            return true;
        }
        let target = match metadata.target() {
            LOG_CRATE => Text::of(event, LOG_TARGET),
            target => target.to_owned(),
        };
        self.admit((metadata.callsite(), target), Instant::now(), || Text::of(event, "message"))
    }
}

/// The text of one field of an event.
struct Text {
    field: &'static str,
    text: String,
}

impl Text {
    fn of(event: &Event<'_>, field: &'static str) -> String {
        let mut text = Self { field, text: String::new() };
        event.record(&mut text);
        text.text
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == self.field {
            self.text = sanitize_to(format!("{value:?}"), EXAMPLE_MAX);
        }
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == self.field {
            self.text = sanitize_to(value, EXAMPLE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::{Layer, Registry, layer::SubscriberExt};

    use super::*;

    struct Counter(Arc<Mutex<u64>>);

    impl<S: Subscriber> Layer<S> for Counter {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            *self.0.lock().unwrap() += 1;
        }
    }

    fn kind(target: &str) -> Kind {
        struct Here;
        impl tracing::Callsite for Here {
            fn set_interest(&self, _: tracing::subscriber::Interest) {}
            fn metadata(&self) -> &Metadata<'_> {
                unreachable!("a key only")
            }
        }
        (Identifier(&Here), target.to_owned())
    }

    #[test]
    fn ten_lines_pass_and_then_one_number_a_period() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let line = |ms| limit.admit(kind("a"), at(ms), || format!("at {ms}"));
        assert_eq!((0..30).filter(|ms| line(*ms)).count(), 10);
        assert!(limit.admit(kind("b"), at(30), String::new), "another kind has its own count");
        assert_eq!(limit.due(at(9_000), false), [], "the period runs");
        let left_out = |count, example: &str| {
            vec![LeftOut { target: "a".to_owned(), count, example: example.to_owned() }]
        };
        assert_eq!(limit.due(at(10_500), false), left_out(20, "at 10"));
        assert!(!line(10_600), "the flood goes on: nothing but its number");
        assert_eq!(limit.due(at(20_600), false), left_out(1, "at 10600"));
        assert_eq!(limit.due(at(30_700), false), [], "a quiet period");
        assert!(line(30_800), "begins anew");
        assert_eq!((31_000..31_020).filter(|ms| line(*ms)).count(), 9);
        assert_eq!(limit.due(at(31_100), true), left_out(11, "at 31009"), "at the end all is told");
    }

    #[test]
    fn a_window_that_nobody_reports_begins_anew_by_itself() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        let line = |secs| limit.admit(kind("a"), start + Duration::from_secs(secs), String::new);
        assert!((0..1_000).all(|n| line(n * 2)), "five lines a period");
    }

    #[test]
    fn floods_are_limited_by_place_and_audit_and_debug_are_not() {
        let (limit, count) = (RateLimit::default(), Arc::new(Mutex::new(0)));
        let layer = Counter(count.clone()).with_filter(limit.clone());
        let logged = || std::mem::take(&mut *count.lock().unwrap());
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            for n in 0..100 {
                tracing::error!(n, "bad request of {n}");
            }
            assert_eq!(logged(), 10);
            for n in 0..100 {
                tracing::info!(target: AUDIT_TARGET, n, "audit");
                tracing::debug!(n, "asked for");
            }
            assert_eq!(logged(), 200);
            limit.report(true);
            assert_eq!(logged(), 1);
        });
        assert_eq!(limit.due(Instant::now(), true), []);
    }
}
