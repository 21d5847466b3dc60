//! The log filter, in the syntax of tracing's `EnvFilter`.

use anyhow::{Context, Result};
use tracing_subscriber::{EnvFilter, Registry, reload};

/// Library whose logs are off unless the filter names it: it logs the whole content of each message that the
/// broker returns.
const SILENT: &str = "lapin";

/// The log filter, which can change while the process runs.
#[derive(Debug, Clone)]
pub(crate) struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Creates the layer of the filter, and the handle that changes it.
    ///
    /// # Errors
    /// The filter is invalid.
    pub(super) fn layer(filter: &str) -> Result<(reload::Layer<EnvFilter, Registry>, Self)> {
        let (layer, handle) = reload::Layer::new(parse(filter)?);
        Ok((layer, Self(handle)))
    }

    /// Replaces the filter.
    ///
    /// # Errors
    /// The filter is invalid; the former one stays.
    pub(crate) fn set(&self, filter: &str) -> Result<()> {
        let filter = parse(filter)?;
        self.0.reload(filter).context("cannot change the log filter")
    }
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
    if filter.contains(SILENT) {
        return Ok(parsed);
    }
    Ok(parsed.add_directive(format!("{SILENT}=off").parse().context("a directive")?))
}
