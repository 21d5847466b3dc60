//! The admin endpoint and the logs of `orchestrator as NAME ..`.
//!
//! A drop-in listens on no TCP port by default, since the replaced program did not. If the service manager provides a runtime
//! directory, the admin endpoint listens on `admin.sock` there.

use std::path::{Path, PathBuf};

use anyhow::Result;
use orchestrator_admin::AdminConfig;
use orchestrator_subsystem::OriginalContext;

use crate::{config::TelemetryConfig, telemetry};

/// Returns the admin section: the TCP address `listen`, if any, and a socket in the runtime directory, if there is one.
pub(crate) fn admin(listen: Option<&str>) -> AdminConfig {
    let runtime = std::env::var_os("RUNTIME_DIRECTORY").and_then(|list| first_directory(&list));
    AdminConfig {
        listen: listen.unwrap_or_default().to_owned(),
        unix_socket: runtime.map(|directory| directory.join("admin.sock")),
        // The original leaves no such file in its directory.
        history_dir: Some(PathBuf::new()),
        ..AdminConfig::default()
    }
}

/// Returns the first of the directories that systemd joins with colons.
fn first_directory(list: &std::ffi::OsStr) -> Option<PathBuf> {
    let list = list.to_str()?;
    list.split(':').find(|entry| !entry.is_empty()).map(|entry| Path::new(entry).to_owned())
}

/// Returns the telemetry section: the filter in `RUST_LOG`, else the level in `LOG_LEVEL`, else the default.
///
/// # Errors
/// The variable has no log filter or level. An empty variable counts as unset.
pub(crate) fn telemetry(context: &OriginalContext) -> Result<TelemetryConfig> {
    let default = TelemetryConfig::default();
    let value = |name: &str| {
        context.variable(name).map(|value| value.to_string_lossy()).filter(|value| !value.is_empty())
    };
    if let Some(filter) = value("RUST_LOG") {
        if telemetry::check_filter(&filter).is_err() {
            anyhow::bail!(
                "RUST_LOG = {filter:?} is not a log filter; write it like info,orchestrator_queue=debug"
            );
        }
        return Ok(TelemetryConfig { filter: filter.into_owned(), ..default });
    }
    let Some(level) = value("LOG_LEVEL") else { return Ok(default) };
    let filter = match level.to_ascii_lowercase().as_str() {
        "critical" | "fatal" | "error" => "error",
        "warning" | "warn" => "warn",
        "info" => &default.filter,
        "debug" => "debug,actix_server=warn",
        "notset" | "trace" => "trace,actix_server=warn",
        _ => anyhow::bail!(
            "LOG_LEVEL = {level:?} is not a log level; write critical, error, warning, info or debug"
        ),
    };
    Ok(TelemetryConfig { filter: filter.to_owned(), ..default })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(variables: &[(&str, &str)]) -> Result<String> {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        telemetry(&OriginalContext::new(variables)).map(|telemetry| telemetry.filter)
    }

    #[test]
    fn rust_log_wins_over_log_level() {
        let default = TelemetryConfig::default().filter;
        for (variables, wanted) in [
            (&[][..], &*default),
            (&[("LOG_LEVEL", "")], &*default),
            (&[("LOG_LEVEL", "INFO")], &*default),
            (&[("LOG_LEVEL", "WARNING")], "warn"),
            (&[("LOG_LEVEL", "Debug")], "debug,actix_server=warn"),
            (&[("LOG_LEVEL", "CRITICAL"), ("RUST_LOG", "")], "error"),
            (
                &[("LOG_LEVEL", "wrong"), ("RUST_LOG", "warn,orchestrator_queue=trace")],
                "warn,orchestrator_queue=trace",
            ),
        ] {
            assert_eq!(filter(variables).unwrap(), wanted, "{variables:?}");
        }
    }

    #[test]
    fn an_invalid_variable_is_refused_by_name() {
        let text = filter(&[("LOG_LEVEL", "loud")]).unwrap_err().to_string();
        assert!(text.starts_with("LOG_LEVEL = \"loud\" is not a log level"), "{text}");
        let text = filter(&[("RUST_LOG", "a=b=c")]).unwrap_err().to_string();
        assert!(text.starts_with("RUST_LOG = \"a=b=c\" is not a log filter"), "{text}");
    }
}
