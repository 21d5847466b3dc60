//! Structured logs on standard error. Standard output is for results of commands.
//!
//! Every field is escaped and limited in length ([`mod@format`]), and the rate of lines of one kind is limited ([`mod@rate_limit`]). So text
//! from peers can neither forge a line nor fill a disk.

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

/// Libraries whose logs are off unless the filter names them. `lapin` logs the whole content of each message that the broker returns.
/// `actix_http` logs each malformed request without its sender; the endpoint logs it with the sender.
const SILENT: [&str; 2] = ["lapin", "actix_http"];

/// The log filter, which can change while the process runs.
#[derive(Debug, Clone)]
pub(crate) struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Replaces the filter.
    ///
    /// # Errors
    /// The filter is invalid; the former one stays.
    pub(crate) fn set(&self, filter: &str) -> Result<()> {
        let filter = parse(filter)?;
        self.0.reload(filter).context("cannot change the log filter")
    }
}

/// Starts logging. The caller has to call [`RateLimit::report`] regularly.
///
/// # Errors
/// The filter is invalid.
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
/// The filter is invalid.
pub(crate) fn check_filter(filter: &str) -> Result<()> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> Result<EnvFilter> {
    let parsed = EnvFilter::try_new(filter)
        .with_context(|| format!("telemetry.filter = {filter:?} is not a log filter"))?;
    SILENT.iter().filter(|library| !filter.contains(*library)).try_fold(parsed, |parsed, library| {
        Ok(parsed.add_directive(format!("{library}=off").parse().context("a directive")?))
    })
}
