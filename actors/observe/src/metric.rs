//! Metrics of a child, shown in the tree and on `/metrics`.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use serde::{Deserialize, Serialize};

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Only grows; `/metrics` adds `_total` to its name.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// Registered metric. Clones share the value.
#[derive(Debug, Clone)]
pub struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) kind: MetricKind,
    pub(crate) help: &'static str,
    pub(crate) label: Option<(&'static str, Arc<str>)>,
    value: Arc<MetricValue>,
}

#[derive(Debug, Default)]
struct MetricValue {
    now: AtomicI64,
    /// Upper bound; 0 if none is declared.
    bound: AtomicI64,
}

/// Share in a gauge, subtracted when it is dropped.
#[derive(Debug)]
pub struct GaugeGuard {
    value: Arc<MetricValue>,
    share: i64,
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.value.now.fetch_sub(self.share, Relaxed);
    }
}

impl Metric {
    pub(crate) fn new(name: &'static str, unit: &'static str, kind: MetricKind, help: &'static str) -> Self {
        let help = help.trim_ascii();
        debug_assert!(!help.is_empty(), "metric {name} has no help text");
        Self { name, unit, kind, help, label: None, value: Arc::default() }
    }

    pub(crate) fn labelled(self, label: &'static str, value: &str) -> Self {
        Self { label: Some((label, value.into())), ..self }
    }

    pub(crate) fn is(&self, name: &str, label: Option<(&str, &str)>) -> bool {
        self.name == name && self.label.as_ref().map(|(label, value)| (*label, &**value)) == label
    }

    /// Adds to the value.
    pub fn add(&self, by: u64) {
        self.value.now.fetch_add(signed(by), Relaxed);
    }

    /// Sets the value.
    pub fn set(&self, to: u64) {
        self.value.now.store(signed(to), Relaxed);
    }

    /// Adds one to a gauge until the guard is dropped.
    #[must_use]
    pub fn hold(&self) -> GaugeGuard {
        self.hold_many(1)
    }

    /// Adds `share` to a gauge until the guard is dropped.
    #[must_use]
    pub fn hold_many(&self, share: u64) -> GaugeGuard {
        self.add(share);
        self.adopt(share)
    }

    /// Guards a `share` that was added to the gauge before.
    #[must_use]
    pub fn adopt(&self, share: u64) -> GaugeGuard {
        GaugeGuard { value: self.value.clone(), share: signed(share) }
    }

    /// Declares a gauge of bytes as memory that the child holds, and its upper bound. The memory budget of
    /// the process contains the bounds of all children.
    pub fn set_bound(&self, bytes: u64) {
        self.value.bound.store(signed(bytes), Relaxed);
    }

    /// Current value.
    pub fn get(&self) -> i64 {
        self.value.now.load(Relaxed)
    }

    /// Declared upper bound.
    pub(crate) fn bound(&self) -> Option<u64> {
        u64::try_from(self.value.bound.load(Relaxed)).ok().filter(|bound| *bound > 0)
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_subtracted_when_their_guards_are_dropped_and_only_declared_bounds_show() {
        let gauge = Metric::new("waiting", "bytes", MetricKind::Gauge, "Bytes.");
        assert_eq!((gauge.get(), gauge.bound()), (0, None));
        gauge.set_bound(64);
        let shares = [gauge.hold(), gauge.hold_many(9)];
        gauge.add(5);
        let adopted = gauge.adopt(5);
        assert_eq!((gauge.get(), gauge.bound()), (15, Some(64)));
        drop(shares);
        assert_eq!(gauge.get(), 5);
        drop(adopted);
        assert_eq!((gauge.get(), gauge.clone().bound()), (0, Some(64)), "clones share both");
    }
}
