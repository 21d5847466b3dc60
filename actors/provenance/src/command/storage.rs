//! Who answers a command about provenance: the running instance's console, or, with `--swh-config`, a client of our own in
//! this process, which does what the original's does: rows go to the broker, questions straight to the store.

mod own;
mod wishes;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use orchestrator_subsystem::{CommandError, Instance, wire::console_url};
use serde_json::Value;

pub(super) use self::wishes::{Waits, Wishes};

/// The child that answers.
const CONSOLE: &str = "provenance/rmq_client";

/// In place of a running instance.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct SwhConfig {
    /// Ask no running instance: act as the original's client would with this YAML file, writing through its broker and reading
    /// from its store
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "socket", "token_file"])]
    pub(super) swh_config: Option<PathBuf>,
}

/// Who answers.
pub(super) enum Storage<'a> {
    /// A running instance, and how long a piece may take there, if it is to be sent more than once.
    Instance(&'a dyn Instance, Option<Waits>),
    /// A client of our own.
    Own(Box<own::Own>, Waits),
}

impl<'a> Storage<'a> {
    /// The one that the command line names.
    ///
    /// # Errors
    /// The original's file cannot be used.
    pub(super) async fn open(
        instance: &'a dyn Instance,
        swh: &SwhConfig,
        wishes: &Wishes,
    ) -> Result<Self, CommandError> {
        if let Some(file) = &swh.swh_config {
            let (own, waits) = own::open(file, wishes).await?;
            return Ok(Self::Own(Box::new(own), waits));
        }
        let Wishes { batch, wait_min_secs, wait_per_batch_secs, .. } = wishes;
        let secs = |secs: &Option<u32>| Duration::from_secs(secs.unwrap_or_default().into());
        let waits = Waits {
            batch: batch.unwrap_or(100),
            min: secs(wait_min_secs),
            per_batch: secs(wait_per_batch_secs),
        };
        let patient = wait_min_secs.is_some() || wait_per_batch_secs.is_some();
        Ok(Self::Instance(instance, patient.then_some(waits)))
    }

    /// How long a piece may take; None: as long as one answer takes.
    pub(super) fn waits(&self) -> Option<Waits> {
        match self {
            Self::Instance(_, waits) => *waits,
            Self::Own(_, waits) => Some(*waits),
        }
    }

    /// Is it of use to ask again what was not answered in time? A client of our own has waited already.
    pub(super) fn is_hasty(&self) -> bool {
        matches!(self, Self::Instance(..))
    }

    /// Has a verb carried out.
    ///
    /// # Errors
    /// It was refused, or there is no answer.
    pub(super) async fn ask(&self, verb: &str, args: &Value) -> Result<Value, CommandError> {
        match self {
            Self::Instance(instance, _) => instance.post(&console_url(CONSOLE, verb), args).await,
            Self::Own(own, _) => own.ask(verb, args).await,
        }
    }

    /// Lets go of broker and store.
    pub(super) async fn close(self) {
        if let Self::Own(own, _) = self {
            own.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_with_the_rows_from_a_minimum() {
        let waits = Waits { batch: 100, min: Duration::from_secs(20), per_batch: Duration::from_secs(10) };
        assert_eq!([1, 200, 250].map(|rows| waits.of(rows).as_secs()), [20, 20, 25]);
    }
}
