//! Logs: structured, to standard error, so that standard output stays for what was asked for.

use anyhow::{Context, Result};
use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

use crate::{
    config::{LogFormat, TelemetryConfig},
    progress::StandardError,
};

/// It logs each message that the broker returns, with all of its bytes, a site's data. The edges tell what happens to them, so the
/// library is not heard unless the filter names it.
const AMQP_LIBRARY: &str = "lapin";

/// What is logged, changed while the process runs.
#[derive(Debug, Clone)]
pub(crate) struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Logs what `filter` says from now on.
    ///
    /// # Errors
    /// The filter is not understood; the former one stays.
    pub(crate) fn set(&self, filter: &str) -> Result<()> {
        let filter = parse(filter)?;
        self.0.reload(filter).context("cannot change the log filter")
    }
}

/// Starts logging.
///
/// # Errors
/// The filter is not understood.
pub(crate) fn start(config: &TelemetryConfig) -> Result<LogFilter> {
    let (filter, handle) = reload::Layer::new(parse(&config.filter)?);
    let logs = tracing_subscriber::fmt::layer().with_writer(|| StandardError);
    let logs = match config.format {
        LogFormat::Text => logs.with_ansi(false).boxed(),
        // The child's span carries its tree path; one level is enough, spans do not nest here.
        LogFormat::Json => logs.json().flatten_event(true).with_span_list(false).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(logs).init();
    Ok(LogFilter(handle))
}

/// Checks a log filter.
///
/// # Errors
/// The filter is not understood.
pub(crate) fn check_filter(filter: &str) -> Result<()> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> Result<EnvFilter> {
    let parsed = EnvFilter::try_new(filter)
        .with_context(|| format!("telemetry.filter = {filter:?} is no log filter"))?;
    if filter.contains(AMQP_LIBRARY) {
        return Ok(parsed);
    }
    Ok(parsed.add_directive(format!("{AMQP_LIBRARY}=off").parse().context("a directive")?))
}
