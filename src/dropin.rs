//! `orchestrator as NAME ..`: the command lines of the originals, translated into a configuration.
//!
//! A drop-in keeps off TCP: the unit file it is put into knows nothing of an admin port. Where the service manager gives
//! a runtime directory, the admin endpoint listens on a socket there, so that `orchestrator tree` works.
//! The command line of the original is all its configuration: files and `ORCHESTRATOR__` variables do not reach it, so that
//! it does what the original would do in any environment.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Subcommand;
use orchestrator_admin::AdminConfig;

use crate::config::Config;

#[cfg(feature = "ingester")]
mod dranspose;
#[cfg(any(feature = "producer", feature = "provenance"))]
mod encoded;
#[cfg(feature = "producer")]
pub(crate) mod fproducer;
#[cfg(feature = "queue")]
mod nixpkgs_update_supervisor;
#[cfg(feature = "provenance")]
pub(crate) mod swh;

/// The programs that can be replaced.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DropIn {
    /// nixpkgs-update's supervisor.py
    #[cfg(feature = "queue")]
    NixpkgsUpdateSupervisor(nixpkgs_update_supervisor::Arguments),
    /// The server of Software Heritage's provenance storage, configured by the file that SWH_CONFIG_FILENAME names
    #[cfg(feature = "provenance")]
    SwhProvenanceServer(swh::Arguments),
    /// An ingester of dranspose, as `dranspose ingester`
    #[cfg(feature = "ingester")]
    DransposeIngester(dranspose::Arguments),
    /// dranspose's ingester for Sardana, as `dranspose http_ingester`
    #[cfg(feature = "ingester")]
    DransposeHttpIngester(dranspose::HttpArguments),
    /// The producer of a tanglenomicon, as `runner client`
    #[cfg(feature = "producer")]
    Fproducer(fproducer::Arguments),
}

impl DropIn {
    /// The configuration that does what the original would do with these arguments.
    ///
    /// # Errors
    /// The original's own configuration file cannot be used.
    pub(crate) fn config(&self, admin: Option<&str>) -> Result<Config> {
        let mut config = Config { admin: Some(quiet_admin(admin)), ..Config::default() };
        match self {
            #[cfg(feature = "queue")]
            DropIn::NixpkgsUpdateSupervisor(arguments) => config.queue = Some(arguments.config()),
            #[cfg(feature = "provenance")]
            DropIn::SwhProvenanceServer(arguments) => config.provenance = Some(arguments.config()?),
            #[cfg(feature = "ingester")]
            DropIn::DransposeIngester(arguments) => config.ingester = vec![arguments.config()?],
            #[cfg(feature = "ingester")]
            DropIn::DransposeHttpIngester(arguments) => config.ingester = vec![arguments.config()?],
            #[cfg(feature = "producer")]
            DropIn::Fproducer(arguments) => config.producer = Some(arguments.config()?),
        }
        Ok(config)
    }
}

/// Reads an original's YAML file.
///
/// # Errors
/// It is none, or lacks something. Only what the matter is and where: the parser would show the lines around it, and they may
/// hold a password.
#[cfg(any(feature = "producer", feature = "provenance"))]
fn yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_saphyr::from_str(text).map_err(|error| {
        let told = error.to_string();
        let told = told.lines().next().unwrap_or_default().trim_start_matches("error: ");
        anyhow::anyhow!("{}", without_values(told))
    })
}

/// Text of a parser without the values that it quotes: `invalid type: string "..", expected u32`.
#[cfg(any(feature = "producer", feature = "provenance"))]
fn without_values(told: &str) -> String {
    let quoted = told.find("string \"").zip(told.rfind('"'));
    let told = quoted.map_or_else(
        || told.to_owned(),
        |(begin, end)| format!("{}string{}", &told[..begin], &told[end + 1..]),
    );
    crate::redaction::scrubbed(&told)
}

/// No TCP unless asked for; a socket in the runtime directory if there is one.
fn quiet_admin(listen: Option<&str>) -> AdminConfig {
    let runtime = std::env::var_os("RUNTIME_DIRECTORY").and_then(|list| first_directory(&list));
    AdminConfig {
        listen: listen.unwrap_or_default().to_owned(),
        unix_socket: runtime.map(|directory| directory.join("admin.sock")),
        ..AdminConfig::default()
    }
}

/// systemd joins several runtime directories with colons.
fn first_directory(list: &std::ffi::OsStr) -> Option<PathBuf> {
    let list = list.to_str()?;
    list.split(':').find(|entry| !entry.is_empty()).map(|entry| Path::new(entry).to_owned())
}
