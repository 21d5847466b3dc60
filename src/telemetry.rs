//! Logs: structured, to standard error, so that standard output stays for what was asked for.

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, TelemetryConfig};

/// Starts logging.
///
/// # Errors
/// The filter is not understood.
pub(crate) fn start(config: &TelemetryConfig) -> Result<()> {
    let filter = EnvFilter::try_new(&config.filter)
        .with_context(|| format!("telemetry.filter = {:?} is no log filter", config.filter))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => logs.with_ansi(false).init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}
