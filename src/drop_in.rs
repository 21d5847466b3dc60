//! The arguments, the admin endpoint and the logs of `orchestrator as NAME ..`.
//!
//! A drop-in listens on no TCP port by default, since the replaced program did not. If the service manager
//! provides a runtime directory, the admin endpoint listens on `admin.sock` there.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::Result;
use orchestrator_admin::AdminConfig;
use orchestrator_subsystem::OriginalContext;

use crate::{config::TelemetryConfig, subsystems, telemetry};

/// This process may have been started under the name of a replaced program: `dranspose ingester ..` is
/// `orchestrator as dranspose-ingester ..`.
pub(crate) fn arguments(of_process: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let given: Vec<OsString> = of_process.into_iter().collect();
    let file = given.first().and_then(|program| Path::new(program).file_name()?.to_str());
    let subcommand = given.get(1).and_then(|word| word.to_str());
    let Some((name, words)) = file.and_then(|file| replaced(file, subcommand)) else { return given };
    let own = ["orchestrator", "as"].into_iter().chain(name).map(OsString::from);
    own.chain(given.into_iter().skip(words)).collect()
}

/// Drop-in for a program's file and its first argument, and how many of the two name it. The drop-in is None
/// if the file needs another argument.
fn replaced(file: &str, subcommand: Option<&str>) -> Option<(Option<&'static str>, usize)> {
    let find = |is_called: &dyn Fn(&str, &[&str]) -> bool| {
        subsystems::drop_in_where(|original| is_called(original.name, original.files))
    };
    if let Some(original) = find(&|name, files| name == file || files.contains(&file)) {
        return Some((Some(original.name), 1));
    }
    let called = subcommand.map(|word| format!("{file}-{}", word.replace('_', "-")));
    if let Some(original) = find(&|name, _| Some(name) == called.as_deref()) {
        return Some((Some(original.name), 2));
    }
    let prefix = format!("{file}-");
    find(&|name, _| name.starts_with(&prefix)).map(|_| (None, 1))
}

/// Admin section: the TCP address `listen`, if any, and a socket in the runtime directory, if there is one.
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

/// systemd joins the directories with colons.
fn first_directory(list: &std::ffi::OsStr) -> Option<PathBuf> {
    let list = list.to_str()?;
    list.split(':').find(|entry| !entry.is_empty()).map(|entry| Path::new(entry).to_owned())
}

/// Telemetry section: the filter in `RUST_LOG`, else the level in `LOG_LEVEL`, else the default.
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
        "debug" => "debug",
        "notset" | "trace" => "trace",
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
    #[cfg(all(feature = "queue", feature = "ingester"))]
    fn the_name_of_the_process_selects_the_drop_in() {
        let arguments = |line: &str| {
            let words = arguments(line.split(' ').map(OsString::from));
            words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        for (line, own) in [
            ("/usr/bin/supervisor.py a b", "orchestrator as nixpkgs-update-supervisor a b"),
            ("nixpkgs-update-supervisor a", "orchestrator as nixpkgs-update-supervisor a"),
            ("/bin/dranspose ingester -n x", "orchestrator as dranspose-ingester -n x"),
            ("dranspose http_ingester", "orchestrator as dranspose-http-ingester"),
            ("dranspose worker -n x", "orchestrator as worker -n x"),
            ("dranspose", "orchestrator as"),
            ("./orchestrator ingester", "./orchestrator ingester"),
            ("/proc/self/exe symbols", "/proc/self/exe symbols"),
        ] {
            assert_eq!(arguments(line), own);
        }
    }

    #[test]
    fn rust_log_wins_over_log_level() {
        let default = TelemetryConfig::default().filter;
        for (variables, wanted) in [
            (&[][..], &*default),
            (&[("LOG_LEVEL", "")], &*default),
            (&[("LOG_LEVEL", "INFO")], &*default),
            (&[("LOG_LEVEL", "WARNING")], "warn"),
            (&[("LOG_LEVEL", "Debug")], "debug"),
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
