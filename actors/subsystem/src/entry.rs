//! Schema, commands and drop-in command lines of a subsystem, for the binary's list of subsystems.

use std::{any::Any, error::Error};

use clap::{ArgMatches, Command, FromArgMatches, Subcommand};
use schemars::{Schema, SchemaGenerator};

use crate::{
    command::{CommandError, CommandFuture, ConfigArguments, Context},
    original::OriginalContext,
    subsystem::Subsystem,
    verbs::VerbCommand,
};

/// Reason why a subsystem cannot start.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// JSON schema of the section.
pub fn schema<S: Subsystem>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.root_schema_for::<S::Config>();
    schema.insert("description".to_owned(), S::DESCRIPTION.into());
    ["$schema", "title"].into_iter().for_each(|keyword| drop(schema.remove(keyword)));
    schema
}

/// Adds the subsystem's commands, if any, to those of the program.
pub fn add_commands<S: Subsystem>(program: Command) -> Command {
    let commands = S::Command::augment_subcommands(Command::new(S::NAME))
        .subcommands(S::verbs().iter().map(VerbCommand::command));
    if commands.get_subcommands().next().is_none() {
        return program;
    }
    program
        .subcommand(commands.about(S::COMMANDS_HELP).subcommand_required(true).arg_required_else_help(true))
}

/// Runs a command of the subsystem.
///
/// # Errors
/// The command failed.
pub fn run<'a, S: Subsystem>(matches: &'a ArgMatches, context: &'a mut Context<'_>) -> CommandFuture<'a, ()> {
    Box::pin(async move {
        if let Some((name, matches)) = matches.subcommand()
            && let Some(verb) = S::verbs().iter().find(|verb| verb.name() == name)
        {
            return verb.run(matches, context).await;
        }
        let command = S::Command::from_arg_matches(matches);
        S::run(command.map_err(|error| CommandError::Usage(error.to_string()))?, context).await
    })
}

/// Reads the command line of the replaced program `name`. None if the program belongs to another subsystem.
///
/// # Errors
/// The configuration of the replaced program cannot be used.
pub fn drop_in_config<S: Subsystem>(
    name: &str,
    matches: &ArgMatches,
    context: &mut OriginalContext,
) -> Option<Result<S::Config, BoxError>> {
    if !S::DropIn::has_subcommand(name) {
        return None;
    }
    let arguments = S::DropIn::from_arg_matches(matches).map_err(BoxError::from);
    Some(arguments.and_then(|arguments| Ok(S::drop_in_config(arguments, context)?)))
}

impl Context<'_> {
    /// Loads the section of `S` from the configuration that `from` names, as a run with `--only` would.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn configuration<S: Subsystem>(&self, from: &ConfigArguments) -> Result<S::Config, CommandError> {
        let config: Box<dyn Any> = (self.load)(from, S::NAME)?;
        config
            .downcast()
            .map(|config| *config)
            .map_err(|_| CommandError::Config(format!("{}: the configuration has no such section", S::NAME)))
    }
}
