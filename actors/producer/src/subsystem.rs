//! Implementation of [`Subsystem`].

use orchestrator_subsystem::{
    BackupSet, Branch, CommandError, Context, Exchange, Original, OriginalContext, OriginalFile,
    ProgressSource, Subsystem, VerbCommand,
};

use crate::{
    ACTOR, child_spec,
    command::{self, ProducerCommand},
    config::ProducerConfig,
    drop_in::DropIn,
    edge::faktory::FaktoryQueue,
    error::ProducerError,
    preflight,
    producer::StencilProducer,
    progress,
};

/// The producer subsystem.
#[derive(Debug, Clone, Copy)]
pub struct Producer;

impl Subsystem for Producer {
    type Config = ProducerConfig;
    type Error = ProducerError;
    type Command = ProducerCommand;
    type DropIn = DropIn;

    const ORIGINALS: &'static [Original] =
        &[Original { name: "fproducer", files: &[], file: OriginalFile::Argument, example: "" }];
    const NAME: &'static str = "producer";
    const DESCRIPTION: &'static str = "The producer subsystem.";
    const COMMANDS_HELP: &'static str = "Inspect and control the producer";

    fn branch(config: &ProducerConfig, _: &mut Exchange) -> Result<Branch<ProducerConfig>, ProducerError> {
        child_spec(config).map(Branch::from)
    }

    fn verbs() -> Vec<VerbCommand> {
        StencilProducer::<FaktoryQueue>::verbs().commands(ACTOR)
    }

    async fn run(command: ProducerCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
        command::run::<Self>(&command, context).await
    }

    fn drop_in_config(
        original: DropIn,
        context: &mut OriginalContext,
    ) -> Result<ProducerConfig, ProducerError> {
        let DropIn::Fproducer(arguments) = original;
        arguments.config(context)
    }

    fn default_config() -> Result<ProducerConfig, String> {
        Ok(ProducerConfig::default())
    }

    fn check(config: &ProducerConfig) -> Vec<String> {
        config.check()
    }

    fn preflight(config: &ProducerConfig) -> Result<(), ProducerError> {
        preflight(config)
    }

    fn files_to_back_up(config: &ProducerConfig) -> BackupSet {
        BackupSet::default()
            .elsewhere(format!("stencils, tangles and progress, in MongoDB at {}", config.mongodb.endpoint()))
            .elsewhere(format!("jobs, in Faktory at {}", config.faktory.endpoint()))
    }

    fn greeting(config: &ProducerConfig) -> String {
        config.greeting()
    }

    fn progress(config: &ProducerConfig) -> Option<ProgressSource> {
        Some(ProgressSource {
            child: ACTOR,
            ends: config.until_done,
            counter: "pushed",
            line: progress::line,
        })
    }
}
