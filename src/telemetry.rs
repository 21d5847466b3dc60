//! Logs: structured, to standard error, so that standard output stays for what was asked for.
//!
//! Every field is escaped and limited ([`mod@format`]), and so is the number of lines of one kind ([`mod@rate_limit`]): what peers send can
//! neither forge a line nor fill a disk.

mod format;
mod rate_limit;

use anyhow::{Context, Result};
use tracing_subscriber::{
    EnvFilter, Layer, Registry, fmt::format::JsonFields, layer::SubscriberExt, reload,
    util::SubscriberInitExt,
};

pub(crate) use self::rate_limit::RateLimit;
use crate::{
    config::{LogFormat, TelemetryConfig},
    progress::StandardError,
};

/// Libraries that are silent unless the filter names them. `lapin` logs each message that the broker returns with all of its bytes, a
/// site's data; `actix_http` logs each malformed request without its sender, which the endpoint itself names.
const SILENT: [&str; 2] = ["lapin", "actix_http"];

/// The log filter, changed while the process runs.
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

/// Starts logging. The caller reports what the rate limit leaves out: see [`RateLimit::report`].
///
/// # Errors
/// The filter is not understood.
pub(crate) fn start(config: &TelemetryConfig) -> Result<(LogFilter, RateLimit)> {
    let (filter, handle) = reload::Layer::new(parse(&config.filter)?);
    let limit = RateLimit::default();
    let logs = tracing_subscriber::fmt::layer().with_writer(|| StandardError).with_ansi(false);
    let logs = match config.format {
        LogFormat::Text => logs.fmt_fields(format::text_fields()).boxed(),
        LogFormat::Json => logs.fmt_fields(JsonFields::new()).event_format(format::Json).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(logs.with_filter(limit.clone())).init();
    Ok((LogFilter(handle), limit))
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
    SILENT.iter().filter(|library| !filter.contains(*library)).try_fold(parsed, |parsed, library| {
        Ok(parsed.add_directive(format!("{library}=off").parse().context("a directive")?))
    })
}
