//! A subsystem without its type: an entry of the binary's list.

use std::{any::Any, fmt, future::Future, pin::Pin};

use clap::{ArgMatches, Command, FromArgMatches, Subcommand};
use orchestrator_supervise::ChildSpec;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::{
    command::{CommandError, ConfigArguments, Context},
    section::{AnyError, AnyReload, Configured, Section, Work},
    subsystem::Subsystem,
};

/// A [`Subsystem`] whose types are hidden; every subsystem is one.
pub trait AnySubsystem: Send + Sync {
    /// Name of the section, the feature, the branch and the commands.
    fn name(&self) -> &'static str;
    /// Tells whether it runs where nothing at all is configured.
    fn runs_by_default(&self) -> bool;
    /// Returns the schema of its section.
    fn schema(&self, generator: &mut SchemaGenerator) -> Schema;
    /// Reads its section. `None`: the section configures nothing.
    ///
    /// # Errors
    /// The value does not fit, although its schema allowed it.
    fn section(&self, value: Value) -> Result<Option<Section>, serde_json::Error>;
    /// Returns the section for `--only` where none is configured.
    ///
    /// # Errors
    /// There is no useful default.
    fn default_section(&self) -> Result<Section, String>;
    /// Adds its commands to those of the program, if it has any.
    fn add_commands(&self, program: Command) -> Command;
    /// Runs a command of its own.
    ///
    /// # Errors
    /// As the command has it.
    fn run<'a>(
        &self,
        matches: &'a ArgMatches,
        context: &'a mut Context<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<(), CommandError>> + 'a>>;
    /// Adds the command lines of the programs that it replaces to those below `orchestrator as`.
    fn add_drop_ins(&self, originals: Command) -> Command;
    /// Reads such a command line. `None`: it is another subsystem's.
    ///
    /// # Errors
    /// The original's configuration cannot be used.
    fn replace(&self, name: &str, matches: &ArgMatches) -> Option<Result<Section, AnyError>>;
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
        let commands = S::Command::augment_subcommands(Command::new(S::NAME));
        if commands.get_subcommands().next().is_none() {
            return program;
        }
        program.subcommand(commands.about(S::COMMANDS).subcommand_required(true).arg_required_else_help(true))
    }

    fn run<'a>(
        &self,
        matches: &'a ArgMatches,
        context: &'a mut Context<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<(), CommandError>> + 'a>> {
        Box::pin(async move {
            let command = S::Command::from_arg_matches(matches);
            S::run(command.map_err(|error| CommandError::Usage(error.to_string()))?, context).await
        })
    }

    fn add_drop_ins(&self, originals: Command) -> Command {
        S::DropIn::augment_subcommands(originals)
    }

    fn replace(&self, name: &str, matches: &ArgMatches) -> Option<Result<Section, AnyError>> {
        if !S::DropIn::has_subcommand(name) {
            return None;
        }
        let replaced = S::DropIn::from_arg_matches(matches).map_err(AnyError::from);
        Some(replaced.and_then(|original| Ok(Section::new::<S>(S::replace(original)?))))
    }
}

impl Section {
    /// The section of `S`.
    pub fn new<S: Subsystem>(config: S::Config) -> Self {
        Self(Box::new(Typed::<S>(config)))
    }

    /// Returns the configuration, if it is that of `S`.
    pub fn get<S: Subsystem>(&self) -> Option<&S::Config> {
        self.0.config().downcast_ref()
    }
}

impl Context<'_> {
    /// Returns the section of `S` in the configuration that these arguments name, as a run with `--only` would have it.
    ///
    /// # Errors
    /// The configuration is refused.
    pub fn configuration<S: Subsystem>(&self, from: &ConfigArguments) -> Result<S::Config, CommandError> {
        let section = (self.load)(from, S::NAME)?;
        let config = section.get::<S>().cloned();
        config.ok_or_else(|| CommandError::Config(format!("{}: there is no such section", S::NAME)))
    }
}

/// A configuration with the subsystem that it belongs to.
struct Typed<S: Subsystem>(S::Config);

impl<S: Subsystem> fmt::Debug for Typed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<S: Subsystem> Configured for Typed<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn config(&self) -> &dyn Any {
        &self.0
    }

    fn config_mut(&mut self) -> &mut dyn Any {
        &mut self.0
    }

    fn copy(&self) -> Box<dyn Configured> {
        Box::new(Self(self.0.clone()))
    }

    fn is_same(&self, other: &dyn Configured) -> bool {
        other.config().downcast_ref::<S::Config>() == Some(&self.0)
    }

    fn to_json(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(&self.0)
    }

    fn check(&self) -> Vec<String> {
        S::check(&self.0)
    }

    fn preflight(&self) -> Result<(), AnyError> {
        Ok(S::preflight(&self.0)?)
    }

    fn branch(&self) -> Result<(ChildSpec, AnyReload), AnyError> {
        let branch = S::branch(&self.0)?;
        let mut reload = branch.reload;
        let reload = move |running: &mut Section, fresh: &Section| {
            let running = running.0.config_mut().downcast_mut::<S::Config>();
            running.zip(fresh.get::<S>()).map(|(running, fresh)| reload(running, fresh)).unwrap_or_default()
        };
        Ok((branch.spec, Box::new(reload)))
    }

    fn greeting(&self) -> String {
        S::greeting(&self.0)
    }

    fn work(&self) -> Option<Work> {
        S::work(&self.0)
    }
}
