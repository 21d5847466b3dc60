//! Metrics of a child, shown in the tree and on `/metrics`.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use serde::{Deserialize, Serialize};

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    pub(crate) value: Arc<AtomicI64>,
}

/// Share of one in a gauge.
#[derive(Debug)]
pub struct GaugeGuard(Arc<AtomicI64>);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Metric {
    pub(crate) fn new(name: &'static str, unit: &'static str, kind: MetricKind, help: &'static str) -> Self {
        let help = help.trim_ascii();
        debug_assert!(!help.is_empty(), "metric {name} has no help text");
        Self { name, unit, kind, help, label: None, value: Arc::new(AtomicI64::new(0)) }
    }

    pub(crate) fn labelled(self, label: &'static str, value: &str) -> Self {
        Self { label: Some((label, value.into())), ..self }
    }

    pub(crate) fn is(&self, name: &str, label: Option<(&str, &str)>) -> bool {
        self.name == name && self.label.as_ref().map(|(label, value)| (*label, &**value)) == label
    }

    /// Adds to the value.
    pub fn add(&self, by: u64) {
        self.value.fetch_add(i64::try_from(by).unwrap_or(i64::MAX), Relaxed);
    }

    /// Sets the value.
    pub fn set(&self, to: u64) {
        self.value.store(i64::try_from(to).unwrap_or(i64::MAX), Relaxed);
    }

    /// Adds one to a gauge until the guard is dropped.
    #[must_use]
    pub fn hold(&self) -> GaugeGuard {
        self.value.fetch_add(1, Relaxed);
        GaugeGuard(self.value.clone())
    }

    /// Current value.
    pub fn get(&self) -> i64 {
        self.value.load(Relaxed)
    }
}
