//! Structured logs on standard error. Standard output is for results of commands.
//!
//! Every field is escaped and limited in length ([`mod@format`]), and the rate of lines of one kind is limited ([`mod@rate_limit`]). So text
//! from peers can neither forge a line nor fill a disk.

mod filter;
mod format;
mod rate_limit;

use anyhow::Result;
use tracing_subscriber::{Layer, fmt::format::JsonFields, layer::SubscriberExt, util::SubscriberInitExt};

pub(crate) use self::{
    filter::{LogFilter, check_filter},
    rate_limit::RateLimit,
};
use crate::{
    config::{LogFormat, TelemetryConfig},
    progress::StandardError,
};

/// Starts logging. The caller has to call [`RateLimit::report`] regularly.
///
/// # Errors
/// The filter is invalid.
pub(crate) fn start(config: &TelemetryConfig) -> Result<(LogFilter, RateLimit)> {
    let (layer, filter) = LogFilter::layer(&config.filter)?;
    let limit = RateLimit::default();
    let logs = tracing_subscriber::fmt::layer().with_writer(|| StandardError).with_ansi(false);
    let logs = match config.format {
        LogFormat::Text => logs.fmt_fields(format::text_fields()).boxed(),
        LogFormat::Json => logs.fmt_fields(JsonFields::new()).event_format(format::Json).boxed(),
    };
    tracing_subscriber::registry().with(layer).with(logs.with_filter(limit.clone())).init();
    Ok((filter, limit))
}
