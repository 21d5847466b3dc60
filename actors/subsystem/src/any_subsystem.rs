//! The type-erased subsystem: an entry of the binary's list.

use std::{any::Any, fmt, future::Future, path::PathBuf, pin::Pin};

use clap::{ArgMatches, Command, FromArgMatches, Subcommand};
use orchestrator_exchange::Exchange;
use orchestrator_supervise::ChildSpec;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::{
    backup_set::BackupSet,
    command::{CommandError, ConfigArguments, Context},
    original::{Original, OriginalContext},
    section::{BoxError, ErasedConfig, ProgressSource, Section, SectionReload},
    subsystem::Subsystem,
    verbs::VerbCommand,
};

/// The object-safe form of [`Subsystem`], implemented for every subsystem.
pub trait AnySubsystem: Send + Sync {
    /// Name of the section, the feature, the branch and the commands.
    fn name(&self) -> &'static str;
    /// Returns true if the subsystem runs when no subsystem is configured.
    fn runs_by_default(&self) -> bool;
    /// Returns the JSON schema of the section.
    fn schema(&self, generator: &mut SchemaGenerator) -> Schema;
    /// Reads the section. Returns `None` if it configures nothing.
    ///
    /// # Errors
    /// The value does not fit the type of the section.
    fn section(&self, value: Value) -> Result<Option<Section>, serde_json::Error>;
    /// Returns the section for `--only` if the configuration has none.
    ///
    /// # Errors
    /// There is no useful default.
    fn default_section(&self) -> Result<Section, String>;
    /// Adds the subsystem's commands, if any, to those of the program.
    fn add_commands(&self, program: Command) -> Command;
    /// Runs a command of the subsystem.
    ///
    /// # Errors
    /// The command failed.
    fn run<'a>(
        &self,
        matches: &'a ArgMatches,
        context: &'a mut Context<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<(), CommandError>> + 'a>>;
    /// Adds the command lines of the replaced programs to `parent`, the command `orchestrator as`.
    fn add_drop_ins(&self, parent: Command) -> Command;
    /// Reads the command line of the replaced program `name`. Returns `None` if the program belongs to
    /// another subsystem.
    ///
    /// # Errors
    /// The configuration of the replaced program cannot be used.
    fn drop_in_section(
        &self,
        name: &str,
        matches: &ArgMatches,
        context: &mut OriginalContext,
    ) -> Option<Result<Section, BoxError>>;
    /// Returns the programs whose configuration `config init` takes over.
    fn originals(&self) -> &'static [Original];
}

impl<S: Subsystem> AnySubsystem for S {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn runs_by_default(&self) -> bool {
        S::RUNS_BY_DEFAULT
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let mut schema = generator.root_schema_for::<S::Config>();
        schema.insert("description".to_owned(), S::DESCRIPTION.into());
        ["$schema", "title"].into_iter().for_each(|keyword| drop(schema.remove(keyword)));
        schema
    }

    fn section(&self, value: Value) -> Result<Option<Section>, serde_json::Error> {
        let config: S::Config = serde_json::from_value(value)?;
        Ok(S::is_configured(&config).then(|| Section::new::<S>(config)))
    }

    fn default_section(&self) -> Result<Section, String> {
        S::default_config().map(Section::new::<S>)
    }

    fn add_commands(&self, program: Command) -> Command {
        let commands = S::Command::augment_subcommands(Command::new(S::NAME))
            .subcommands(S::verbs().iter().map(VerbCommand::command));
        if commands.get_subcommands().next().is_none() {
            return program;
        }
        program.subcommand(
            commands.about(S::COMMANDS_HELP).subcommand_required(true).arg_required_else_help(true),
        )
    }

    fn run<'a>(
        &self,
        matches: &'a ArgMatches,
        context: &'a mut Context<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<(), CommandError>> + 'a>> {
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

    fn add_drop_ins(&self, parent: Command) -> Command {
        S::DropIn::augment_subcommands(parent)
    }

    fn drop_in_section(
        &self,
        name: &str,
        matches: &ArgMatches,
        context: &mut OriginalContext,
    ) -> Option<Result<Section, BoxError>> {
        if !S::DropIn::has_subcommand(name) {
            return None;
        }
        let arguments = S::DropIn::from_arg_matches(matches).map_err(BoxError::from);
        Some(arguments.and_then(|arguments| Ok(Section::new::<S>(S::drop_in_config(arguments, context)?))))
    }

    fn originals(&self) -> &'static [Original] {
        S::ORIGINALS
    }
}

impl Section {
    /// Creates the section of `S`.
    pub fn new<S: Subsystem>(config: S::Config) -> Self {
        Self(Box::new(TypedConfig::<S>(config)))
    }

    /// None if the section belongs to another subsystem than `S`.
    pub fn get<S: Subsystem>(&self) -> Option<&S::Config> {
        self.0.config().downcast_ref()
    }
}

impl Context<'_> {
    /// Loads the section of `S` from the configuration that `from` names, as a run with `--only` would.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn configuration<S: Subsystem>(&self, from: &ConfigArguments) -> Result<S::Config, CommandError> {
        let section = (self.load)(from, S::NAME)?;
        let config = section.get::<S>().cloned();
        config.ok_or_else(|| {
            CommandError::Config(format!("{}: the configuration has no such section", S::NAME))
        })
    }
}

/// A configuration with its subsystem as a type parameter.
struct TypedConfig<S: Subsystem>(S::Config);

impl<S: Subsystem> fmt::Debug for TypedConfig<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<S: Subsystem> ErasedConfig for TypedConfig<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn config(&self) -> &dyn Any {
        &self.0
    }

    fn config_mut(&mut self) -> &mut dyn Any {
        &mut self.0
    }

    fn clone_box(&self) -> Box<dyn ErasedConfig> {
        Box::new(Self(self.0.clone()))
    }

    fn equals(&self, other: &dyn ErasedConfig) -> bool {
        other.config().downcast_ref::<S::Config>() == Some(&self.0)
    }

    fn to_json(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(&self.0)
    }

    fn check(&self) -> Vec<String> {
        S::check(&self.0)
    }

    fn preflight(&self) -> Result<(), BoxError> {
        Ok(S::preflight(&self.0)?)
    }

    fn branch(&self, exchange: &mut Exchange) -> Result<(ChildSpec, SectionReload), BoxError> {
        let branch = S::branch(&self.0, exchange)?;
        let mut reload = branch.reload;
        let reload = move |running: &mut Section, fresh: &Section| {
            let running = running.0.config_mut().downcast_mut::<S::Config>();
            running.zip(fresh.get::<S>()).map(|(running, fresh)| reload(running, fresh)).unwrap_or_default()
        };
        Ok((branch.spec, Box::new(reload)))
    }

    fn offers_jobs(&self) -> bool {
        S::offers_jobs(&self.0)
    }

    fn state_dir(&self) -> Option<PathBuf> {
        S::state_dir(&self.0)
    }

    fn files_to_back_up(&self) -> BackupSet {
        S::files_to_back_up(&self.0)
    }

    fn greeting(&self) -> String {
        S::greeting(&self.0)
    }

    fn progress(&self) -> Option<ProgressSource> {
        S::progress(&self.0)
    }
}
