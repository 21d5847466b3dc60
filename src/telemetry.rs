//! Structured logs on standard error. Standard output is for results of commands.
//!
//! Every field is escaped and limited in length ([`mod@format`]), and the rate of lines of one kind is
//! limited ([`mod@rate_limit`]). So text from peers can neither forge a line nor fill a disk.

mod filter;
mod format;
mod rate_limit;

use anyhow::Result;
use orchestrator_supervise::StandardStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::{Layer, fmt::format::JsonFields, layer::SubscriberExt, util::SubscriberInitExt};

pub(crate) use self::{
    filter::{LogFilter, check_filter},
    rate_limit::RateLimit,
};
use crate::progress::StandardError;

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// Human-readable lines.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging. The caller has to call [`RateLimit::report`] regularly.
///
/// # Errors
/// The filter is invalid.
pub(crate) fn start(format: LogFormat, filter: &str) -> Result<(LogFilter, RateLimit)> {
    let (layer, filter) = LogFilter::layer(filter)?;
    StandardStream::never_wait();
    let limit = RateLimit::default();
    let logs = tracing_subscriber::fmt::layer().with_writer(|| StandardError).with_ansi(false);
    let logs = match format {
        LogFormat::Text => logs.fmt_fields(format::text_fields()).boxed(),
        LogFormat::Json => logs.fmt_fields(JsonFields::new()).event_format(format::Json).boxed(),
    };
    tracing_subscriber::registry().with(layer).with(logs.with_filter(limit.clone())).init();
    Ok((filter, limit))
}
