//! Implementation of the [`Subsystem`] trait.

use std::path::{Path, PathBuf};

use orchestrator_subsystem::{
    BackupSet, Branch, CommandError, Context, Exchange, Original, OriginalContext, OriginalFile, Subsystem,
    VerbCommand,
};

use crate::{
    QueueError, child_spec,
    command::{self, QueueCommand},
    config::QueueConfig,
    drop_in::DropIn,
    preflight, queue_console,
};

/// The queue subsystem.
#[derive(Debug, Clone, Copy)]
pub struct Queue;

impl Subsystem for Queue {
    type Config = QueueConfig;
    type Error = QueueError;
    type Command = QueueCommand;
    type DropIn = DropIn;

    const ORIGINALS: &'static [Original] = &[Original {
        name: "nixpkgs-update-supervisor",
        files: &["supervisor.py", "supervisor"],
        file: OriginalFile::None,
        example: "",
    }];
    const NAME: &'static str = "queue";
    const DESCRIPTION: &'static str = "The queue subsystem.";
    const COMMANDS_HELP: &'static str = "Inspect and control the queue";
    const RUNS_BY_DEFAULT: bool = true;

    fn branch(config: &QueueConfig, exchange: &mut Exchange) -> Result<Branch<QueueConfig>, QueueError> {
        Ok(child_spec(config, exchange).into())
    }

    fn verbs() -> Vec<VerbCommand> {
        queue_console::verbs().commands("queue/queue_console")
    }

    async fn run(command: QueueCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
        command::run::<Self>(&command, context).await
    }

    fn drop_in_config(original: DropIn, context: &mut OriginalContext) -> Result<QueueConfig, QueueError> {
        Ok(original.config(context))
    }

    fn default_config() -> Result<QueueConfig, String> {
        Ok(QueueConfig::default())
    }

    fn check(config: &QueueConfig) -> Vec<String> {
        config.check()
    }

    fn preflight(config: &QueueConfig) -> Result<(), QueueError> {
        preflight(config)
    }

    fn state_dir(config: &QueueConfig) -> Option<PathBuf> {
        config.database.parent().map(Path::to_owned)
    }

    fn files_to_back_up(config: &QueueConfig) -> BackupSet {
        config.make_store().files_to_back_up()
    }

    fn greeting(config: &QueueConfig) -> String {
        config.greeting()
    }
}
