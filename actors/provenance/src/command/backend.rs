//! Target of a provenance command: the console of a running instance or, with `--swh-config`, a
//! client in this process. Like the original's client, that one sends rows to the broker and
//! queries to the store.

mod client_options;
mod in_process;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use orchestrator_subsystem::{
    CommandError, Instance, Verb,
    wire::{console_url, export_url},
};
use orchestrator_supervise::Handle;
use serde_json::Value;

use crate::rmq_client::RmqClient;

pub(super) use self::client_options::{ChunkTimeout, ClientOptions};

/// Tree id of the branch with the exports.
const BRANCH: &str = "provenance";
/// Tree id of the child that answers.
pub(crate) const CONSOLE: &str = "provenance/rmq_client";

/// Arguments that select a client in this process.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct SwhConfig {
    /// Connect to the broker and the storage in this YAML file of the original, instead of to a running
    /// instance
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "socket", "token_file"])]
    pub(super) swh_config: Option<PathBuf>,
}

/// Target of a command.
pub(super) enum Backend<'a> {
    /// A running instance, and the time-out within which a chunk is repeated, if it may be.
    Instance(&'a dyn Instance, Option<ChunkTimeout>),
    /// A client in this process.
    InProcess(Box<in_process::InProcessClient>, ChunkTimeout),
}

impl<'a> Backend<'a> {
    /// Opens the target that the command line names.
    ///
    /// # Errors
    /// The original's file is invalid or unreadable.
    pub(super) async fn open(
        instance: &'a dyn Instance,
        swh: &SwhConfig,
        client_options: &ClientOptions,
    ) -> Result<Self, CommandError> {
        if let Some(file) = &swh.swh_config {
            let (in_process, timeout) = in_process::open(file, client_options).await?;
            return Ok(Self::InProcess(Box::new(in_process), timeout));
        }
        let ClientOptions { batch, wait_min_secs, wait_per_batch_secs, .. } = client_options;
        let secs = |secs: &Option<u32>| Duration::from_secs(secs.unwrap_or_default().into());
        let timeout = ChunkTimeout {
            batch: batch.unwrap_or(100),
            min: secs(wait_min_secs),
            per_batch: secs(wait_per_batch_secs),
        };
        let has_timeout = wait_min_secs.is_some() || wait_per_batch_secs.is_some();
        Ok(Self::Instance(instance, has_timeout.then_some(timeout)))
    }

    /// None: the time-out of one answer.
    pub(super) fn timeout(&self) -> Option<ChunkTimeout> {
        match self {
            Self::Instance(_, timeout) => *timeout,
            Self::InProcess(_, timeout) => Some(*timeout),
        }
    }

    /// Repeating an unanswered request may help. A client in this process has waited already.
    pub(super) fn may_retry(&self) -> bool {
        matches!(self, Self::Instance(..))
    }

    /// Sends a verb and returns its answer.
    ///
    /// # Errors
    /// The verb was refused, or there is no answer.
    pub(super) async fn ask<V: Verb>(&self, path: &str, verb: &V) -> Result<Value, CommandError>
    where
        RmqClient: Handle<V>,
    {
        let json = |error: serde_json::Error| CommandError::Local(error.to_string());
        match self {
            Self::Instance(instance, _) => {
                let arguments = serde_json::to_value(verb).map_err(json)?;
                instance.post(&console_url(path, V::NAME), &arguments).await
            }
            Self::InProcess(in_process, _) => {
                serde_json::to_value(in_process.ask(verb.clone()).await?).map_err(json)
            }
        }
    }

    /// Reads the rows of an export; `take` receives their bytes in order.
    ///
    /// # Errors
    /// An error of `take`, or the rows are not complete.
    pub(super) async fn export(
        &self,
        name: &str,
        args: &[(String, String)],
        take: &mut dyn FnMut(&[u8]) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        match self {
            Self::Instance(instance, _) => instance.stream(&export_url(BRANCH, name, args), take).await,
            Self::InProcess(in_process, _) => in_process.export(name, args, take).await,
        }
    }

    /// Closes the connections to the broker and the store.
    pub(super) async fn close(self) {
        if let Self::InProcess(in_process, _) = self {
            in_process.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_out_grows_with_the_rows_from_a_minimum() {
        let timeout =
            ChunkTimeout { batch: 100, min: Duration::from_secs(20), per_batch: Duration::from_secs(10) };
        assert_eq!([1, 200, 250].map(|rows| timeout.of(rows).as_secs()), [20, 20, 25]);
    }
}
