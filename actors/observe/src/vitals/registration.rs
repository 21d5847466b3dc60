//! Registration of a child's metrics and histograms.

use std::time::Duration;

use super::{LABELS_MAX, OTHER_LABEL, Vitals};
use crate::{
    metric::{Metric, MetricKind},
    timing::Timing,
};

impl Vitals {
    /// Registers a metric with its help text, one sentence about its meaning. A later call with the same name
    /// returns the same metric, so counters continue after a restart. The macro [`metrics!`](crate::metrics)
    /// registers a struct of metrics.
    ///
    /// # Panics
    /// In debug builds, if `help` is empty.
    pub fn register(
        &self,
        name: &'static str,
        unit: &'static str,
        kind: MetricKind,
        help: &'static str,
    ) -> Metric {
        let mut metrics = self.metrics.lock();
        if let Some(known) = metrics.iter().find(|metric| metric.is(name, None)) {
            return known.clone();
        }
        let metric = Metric::new(name, unit, kind, help);
        metrics.push(metric.clone());
        metric
    }

    /// Registers a metric of one peer, like [`Vitals::register`] but with a label (name, value). Metrics of
    /// one name have at most [`LABELS_MAX`] values, since peers choose their names; further peers share the
    /// value [`OTHER_LABEL`].
    pub fn register_labelled(
        &self,
        name: &'static str,
        unit: &'static str,
        kind: MetricKind,
        help: &'static str,
        label: (&'static str, &str),
    ) -> Metric {
        let mut metrics = self.metrics.lock();
        let mut value = label.1;
        for _ in 0..2 {
            if let Some(known) = metrics.iter().find(|metric| metric.is(name, Some((label.0, value)))) {
                return known.clone();
            }
            let is_own = |one: &&Metric| {
                one.name == name && one.label.as_ref().is_some_and(|(_, value)| &**value != OTHER_LABEL)
            };
            if metrics.iter().filter(is_own).count() < LABELS_MAX {
                break;
            }
            value = OTHER_LABEL;
        }
        let metric = Metric::new(name, unit, kind, help).labelled(label.0, value);
        metrics.push(metric.clone());
        metric
    }

    /// Removes all metrics with this label (name, value), which frees the value for another peer.
    pub fn unregister_labelled(&self, label: (&str, &str)) {
        let of =
            |metric: &Metric| metric.label.as_ref().is_some_and(|(name, value)| (*name, &**value) == label);
        self.metrics.lock().retain(|metric| !of(metric));
    }

    /// Registers a histogram of durations with its help text and label (name, value). A later call with the
    /// same name and label returns the same histogram. All histograms of one name must have the same label
    /// name.
    ///
    /// # Panics
    /// In debug builds, if `help` is empty.
    pub fn register_timing(
        &self,
        name: &'static str,
        help: &'static str,
        label: (&'static str, &'static str),
    ) -> Timing {
        self.register_coarse_timing(name, help, label, Duration::from_micros(1))
    }

    /// Registers a histogram like [`Vitals::register_timing`], with buckets from `resolution` to
    /// 134,217,728 times that.
    ///
    /// # Panics
    /// In debug builds, if `help` is empty.
    pub fn register_coarse_timing(
        &self,
        name: &'static str,
        help: &'static str,
        label: (&'static str, &'static str),
        resolution: Duration,
    ) -> Timing {
        let mut timings = self.timings.lock();
        if let Some(known) = timings.iter().find(|known| known.name == name && known.label == label) {
            return known.clone();
        }
        let timing = Timing::new(name, help, label, resolution);
        timings.push(timing.clone());
        timing
    }
}
