//! The rate limit of log lines of one kind: [`BURST`] lines, then one line with the number of the others
//! every [`PERIOD`].
//!
//! Lines of one kind come from the same statement of the code. Audit lines and lines below `info` have no
//! limit, but lines about single jobs, rows and events ([`DETAIL`]) have one: [`DETAIL_BURST`].

use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use orchestrator_admin::AUDIT_TARGET;
use orchestrator_subsystem::DETAIL;
use orchestrator_text::sanitize_to;
use tracing::{
    Event, Level, Metadata, Subscriber,
    callsite::Identifier,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Filter};

/// Lines of one kind that are logged before the limit applies.
const BURST: u32 = 10;
/// The same for lines about single jobs, rows and events.
const DETAIL_BURST: u32 = 100;
/// Time between two lines with the number of suppressed lines.
const PERIOD: Duration = Duration::from_secs(10);
/// Longest example of a suppressed line, in bytes.
const EXAMPLE_MAX: usize = 120;
/// Target of events from the `log` crate. Their original target is in the field [`LOG_TARGET`].
const LOG_CRATE: &str = "log";
/// Name of the field with the original target.
const LOG_TARGET: &str = "log.target";

/// The rate limit. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct RateLimit(Arc<Mutex<HashMap<Kind, Window>>>);

/// Call site of a log statement, and the target of its lines.
type Kind = (Identifier, String);

/// Lines of one kind since `began`.
#[derive(Debug)]
struct Window {
    began: Instant,
    logged: u32,
    suppressed: u64,
    example: String,
}

/// Lines of one kind that were suppressed within one [`PERIOD`].
#[derive(Debug, PartialEq, Eq)]
struct Suppressed {
    target: String,
    count: u64,
    example: String,
}

impl RateLimit {
    /// Time between two calls of [`Self::report`].
    pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(1);

    /// Logs the number of suppressed lines of each kind in the last period. `all` includes the current
    /// period.
    pub(crate) fn report(&self, all: bool) {
        for Suppressed { target, count, example } in self.due(Instant::now(), all) {
            let limit = burst(&target);
            tracing::warn!(
                count,
                of = target,
                example,
                "log lines suppressed: more than {limit} of one kind"
            );
        }
    }

    fn due(&self, now: Instant, all: bool) -> Vec<Suppressed> {
        let mut due = Vec::new();
        self.lock().retain(|(_, target), window| {
            if !all && now.saturating_duration_since(window.began) < PERIOD {
                return true;
            }
            let count = std::mem::take(&mut window.suppressed);
            if count == 0 {
                return false;
            }
            due.push(Suppressed {
                target: target.clone(),
                count,
                example: std::mem::take(&mut window.example),
            });
            // Only the number is logged until a period without lines of this kind.
            (window.began, window.logged) = (now, burst(target));
            true
        });
        due
    }

    /// Counts a line and returns true if it may be logged. The first suppressed line is kept as the example.
    fn admit(&self, kind: Kind, now: Instant, example: impl FnOnce() -> String) -> bool {
        let mut kinds = self.lock();
        let burst = burst(&kind.1);
        let window = kinds.entry(kind);
        let window =
            window.or_insert_with(|| Window { began: now, logged: 0, suppressed: 0, example: String::new() });
        if window.suppressed == 0 && now.saturating_duration_since(window.began) >= PERIOD {
            (window.began, window.logged) = (now, 0);
        }
        if window.logged < burst {
            window.logged += 1;
            return true;
        }
        if window.suppressed == 0 {
            window.example = example();
        }
        window.suppressed += 1;
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
        let is_detail = metadata.target() == DETAIL;
        if *metadata.level() > Level::INFO && !is_detail || metadata.target() == AUDIT_TARGET {
            return true;
        }
        let target = match metadata.target() {
            LOG_CRATE => FieldText::of(event, LOG_TARGET),
            target => target.to_owned(),
        };
        self.admit((metadata.callsite(), target), Instant::now(), || FieldText::of(event, "message"))
    }
}

/// Number of lines of one kind that are logged before the limit applies.
fn burst(target: &str) -> u32 {
    if target == DETAIL { DETAIL_BURST } else { BURST }
}

/// Text of one field of an event.
struct FieldText {
    field: &'static str,
    text: String,
}

impl FieldText {
    fn of(event: &Event<'_>, field: &'static str) -> String {
        let mut text = Self { field, text: String::new() };
        event.record(&mut text);
        text.text
    }
}

impl Visit for FieldText {
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
        struct TestCallsite;
        impl tracing::Callsite for TestCallsite {
            fn set_interest(&self, _: tracing::subscriber::Interest) {}
            fn metadata(&self) -> &Metadata<'_> {
                unreachable!("a key only")
            }
        }
        (Identifier(&TestCallsite), target.to_owned())
    }

    #[test]
    fn ten_lines_are_logged_and_then_one_count_a_period() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let line = |ms| limit.admit(kind("a"), at(ms), || format!("at {ms}"));
        assert_eq!((0..30).filter(|ms| line(*ms)).count(), 10);
        assert!(limit.admit(kind("b"), at(30), String::new), "each kind has its own count");
        assert_eq!(limit.due(at(9_000), false), [], "the period has not ended");
        let suppressed = |count, example: &str| {
            vec![Suppressed { target: "a".to_owned(), count, example: example.to_owned() }]
        };
        assert_eq!(limit.due(at(10_500), false), suppressed(20, "at 10"));
        assert!(!line(10_600), "lines stay suppressed after a period with suppressed lines");
        assert_eq!(limit.due(at(20_600), false), suppressed(1, "at 10600"));
        assert_eq!(limit.due(at(30_700), false), [], "a period without lines");
        assert!(line(30_800), "lines are logged again");
        assert_eq!((31_000..31_020).filter(|ms| line(*ms)).count(), 9);
        assert_eq!(
            limit.due(at(31_100), true),
            suppressed(11, "at 31009"),
            "`all` includes the current period"
        );
    }

    #[test]
    fn an_ended_period_without_suppressed_lines_restarts_without_a_report() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        let line = |secs| limit.admit(kind("a"), start + Duration::from_secs(secs), String::new);
        assert!((0..1_000).all(|n| line(n * 2)), "five lines a period");
    }

    #[test]
    fn lines_are_limited_by_call_site_except_audit_and_debug() {
        let (limit, count) = (RateLimit::default(), Arc::new(Mutex::new(0)));
        let layer = Counter(count.clone()).with_filter(limit.clone());
        let logged = || std::mem::take(&mut *count.lock().unwrap());
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            for n in 0..100 {
                tracing::error!(n, "bad request {n}");
            }
            assert_eq!(logged(), 10);
            for n in 0..100 {
                tracing::info!(target: AUDIT_TARGET, n, "audit");
                tracing::debug!(n, "asked for");
            }
            assert_eq!(logged(), 200);
            for n in 0..1_000 {
                tracing::debug!(target: DETAIL, n, "an event");
            }
            assert_eq!(logged(), 100);
            limit.report(true);
            assert_eq!(logged(), 2);
        });
        assert_eq!(limit.due(Instant::now(), true), []);
    }
}
