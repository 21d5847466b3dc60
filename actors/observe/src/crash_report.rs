//! Report of one crash, limited to [`REPORT_BYTES_MAX`] of JSON.

use serde::{Deserialize, Serialize};

use crate::{event::Event, json_size::json_bytes};

/// Largest report, in bytes of JSON.
pub(crate) const REPORT_BYTES_MAX: usize = 64 * 1024;
/// Largest events of a report, in bytes of JSON.
const EVENT_BYTES_MAX: usize = 16 * 1024;
/// Largest samples of a report, in bytes of JSON or memory.
const SAMPLE_BYTES_MAX: usize = 24 * 1024;

/// Report of a panic or fault of a child, in at most 64 KiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrashReport {
    /// Number in this process, from 1.
    pub number: u64,
    /// Time, milliseconds since 1970.
    pub at_ms: u64,
    /// Path of the child.
    pub path: String,
    /// Number of the incarnation.
    pub incarnation: u64,
    /// `panicked` or `failed`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["panicked", "failed"])))]
    pub kind: String,
    /// Message of the panic or fault, escaped and limited in length.
    pub message: String,
    /// Position of the panic in the source: `file:line:column`.
    pub location: Option<String>,
    /// Type of the message, or name of the work item, in progress at the end, which is lost.
    pub in_progress: Option<String>,
    /// The last 20 events of the supervisor's branch before the end, oldest first.
    pub events: Vec<Event>,
    /// Metrics of the child in the minute before; null until the endpoint has added them.
    pub samples: Option<Samples>,
    /// Functions of the panic's stack, the innermost first: `function at file:line`.
    pub backtrace: Vec<String>,
    /// Parts that the limit left out, for example `3 events`.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// Values of a child's metrics at some times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Samples {
    /// Times, milliseconds since 1970.
    pub at_ms: Vec<u64>,
    /// Values of each metric at these times.
    pub series: Vec<SampledMetric>,
}

/// Values of one metric, null where it did not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledMetric {
    /// Name, with its label as `name{label=value}`.
    pub metric: String,
    /// Values, one for each time.
    pub values: Vec<Option<i64>>,
}

impl SampledMetric {
    /// Returns true if the values differ.
    pub fn changes(&self) -> bool {
        self.values.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// Upper bound of its memory and of its JSON, in bytes.
    fn bytes(&self) -> usize {
        96 + 2 * self.metric.len() + 24 * self.values.len()
    }
}

impl Samples {
    fn bytes(&self) -> usize {
        64 + 24 * self.at_ms.len() + self.series.iter().map(SampledMetric::bytes).sum::<usize>()
    }
}

impl CrashReport {
    /// Most events in a report.
    pub const EVENTS_MAX: usize = 20;

    /// Drops the oldest events until the rest is within its limit.
    pub(crate) fn limit_events(&mut self) {
        let mut room = EVENT_BYTES_MAX;
        let fit = self.events.iter().rev().take_while(|event| {
            let bytes = event.json_bytes() + 1;
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        });
        let omitted = self.events.len() - fit.count();
        self.events.drain(..omitted);
        self.mark(omitted, "events");
    }

    /// Adds samples. Metrics that changed come first; those beyond the limit are dropped.
    pub(crate) fn add_samples(&mut self, mut samples: Samples) {
        samples.series.sort_by_key(|series| !series.changes());
        let all = samples.series.len();
        while samples.bytes() > SAMPLE_BYTES_MAX && samples.series.pop().is_some() {}
        self.mark(all - samples.series.len(), "metrics");
        self.samples = Some(samples);
    }

    /// Adds the lines of the stack that fit.
    pub(crate) fn add_backtrace(&mut self, lines: Vec<String>) {
        // The mark needs room, too.
        let mut room = REPORT_BYTES_MAX.saturating_sub(self.bytes() + 64);
        let all = lines.len();
        self.backtrace = lines
            .into_iter()
            .take_while(|line| {
                let bytes = json_bytes(line) + 1;
                let fits = bytes <= room;
                room = room.saturating_sub(bytes);
                fits
            })
            .collect();
        self.mark(all - self.backtrace.len(), "frames");
    }

    fn mark(&mut self, omitted: usize, what: &str) {
        if omitted > 0 {
            self.left_out.push(format!("{omitted} {what}"));
        }
    }

    /// Upper bound of its JSON, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let [path, kind, message] = [&self.path, &self.kind, &self.message].map(|text| json_bytes(text));
        let options = [&self.location, &self.in_progress].into_iter().flatten();
        let texts = options.chain(&self.backtrace).chain(&self.left_out);
        let texts: usize = texts.map(|text| json_bytes(text) + 1).sum();
        let events: usize = self.events.iter().map(|event| event.json_bytes() + 1).sum();
        let samples = self.samples.as_ref().map_or(0, Samples::bytes);
        // Names of the fields and three numbers of up to 20 digits.
        256 + path + kind + message + texts + events + samples
    }

    /// Upper bound of its memory without the stack, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let samples = self.samples.as_ref().map_or(0, Samples::bytes);
        size_of::<Self>() + self.bytes() + self.events.len() * size_of::<Event>() + samples
    }
}
