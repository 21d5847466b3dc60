//! The list of subsystems, in the order of their start and in output.

use std::ffi::OsString;

use anyhow::Context as _;
use clap::{ArgMatches, Command, FromArgMatches, Subcommand, error::ErrorKind};
use orchestrator_subsystem::{
    AnySubsystem, CommandError, Context, Exchange, Original, OriginalContext, Section,
};

macro_rules! subsystems {
    ($($feature:literal => $subsystem:expr,)*) => {
        /// Subsystems of this build.
        pub(crate) static SUBSYSTEMS: &[&dyn AnySubsystem] = &[$(#[cfg(feature = $feature)] &$subsystem,)*];
        /// Names of all subsystems and of their Cargo features, including those that this build leaves out.
        pub(crate) const NAMES: &[&str] = &[$($feature,)*];
    };
}

subsystems! {
    "queue" => orchestrator_queue::Queue,
    "provenance" => orchestrator_provenance::Provenance,
    "ingester" => orchestrator_ingester::Ingesters,
    "producer" => orchestrator_producer::Producer,
    "catalog" => orchestrator_catalog::Catalogs,
}

/// None if this build does not have it.
pub(crate) fn find(name: &str) -> Option<&'static dyn AnySubsystem> {
    SUBSYSTEMS.iter().copied().find(|subsystem| subsystem.name() == name)
}

/// Names of the subsystems of this build.
pub(crate) fn names() -> Vec<&'static str> {
    SUBSYSTEMS.iter().map(|subsystem| subsystem.name()).collect()
}

/// Connection between the subsystems of `sections`, which each branch completes in the order of
/// [`SUBSYSTEMS`]: the queue, which takes jobs, comes before those that offer them.
pub(crate) fn exchange(sections: &[Section]) -> Exchange {
    Exchange { offers_jobs: sections.iter().any(|section| section.offers_jobs()), ..Exchange::default() }
}

/// A command of a subsystem: `orchestrator NAME ..`.
#[derive(Clone)]
pub(crate) struct SubsystemCommand {
    subsystem: &'static dyn AnySubsystem,
    matches: ArgMatches,
}

impl SubsystemCommand {
    pub(crate) async fn run(&self, context: &mut Context<'_>) -> Result<(), CommandError> {
        self.subsystem.run(&self.matches, context).await
    }
}

/// The command line of a replaced program: `orchestrator as NAME ..`.
#[derive(Clone)]
pub(crate) struct DropIn {
    name: String,
    matches: ArgMatches,
}

impl DropIn {
    /// Name of the replaced program.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Converts the command line into the equivalent section. `context` has the environment and takes
    /// warnings.
    ///
    /// # Errors
    /// The configuration of the replaced program cannot be used.
    pub(crate) fn section(&self, context: &mut OriginalContext) -> anyhow::Result<Section> {
        let section = SUBSYSTEMS
            .iter()
            .find_map(|subsystem| subsystem.drop_in_section(&self.name, &self.matches, context));
        let section = section.with_context(|| format!("no such program: {}", self.name))?;
        section.map_err(anyhow::Error::from_boxed)
    }
}

/// A program that this build replaces by a command line, `orchestrator as NAME ..`, and for which `is_wanted`
/// is true.
pub(crate) fn drop_in_where(is_wanted: impl Fn(&Original) -> bool) -> Option<&'static Original> {
    let originals = SUBSYSTEMS.iter().flat_map(|subsystem| subsystem.originals());
    // The definition of the command lines is made only for a program that is wanted.
    originals.filter(|original| is_wanted(original)).find(|original| DropIn::has_subcommand(original.name))
}

/// Parses the arguments of the replaced program `name`.
///
/// # Errors
/// The program does not accept them.
pub(crate) fn drop_in(name: &str, arguments: &[OsString]) -> anyhow::Result<DropIn> {
    let parent = DropIn::augment_subcommands(Command::new("as"));
    let words = ["as".into(), name.into()].into_iter().chain(arguments.iter().cloned());
    let matches = parent.try_get_matches_from(words);
    let matches =
        matches.map_err(|error| anyhow::anyhow!("{name}: {}", error.render().to_string().trim_end()))?;
    Ok(DropIn { name: name.to_owned(), matches })
}

impl FromArgMatches for SubsystemCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (name, matches) = subcommand(matches)?;
        let subsystem = find(name).ok_or_else(unknown)?;
        Ok(Self { subsystem, matches: matches.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for SubsystemCommand {
    fn augment_subcommands(program: Command) -> Command {
        SUBSYSTEMS.iter().fold(program, |program, subsystem| subsystem.add_commands(program))
    }

    fn augment_subcommands_for_update(program: Command) -> Command {
        Self::augment_subcommands(program)
    }

    fn has_subcommand(name: &str) -> bool {
        find(name).is_some()
    }
}

impl FromArgMatches for DropIn {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (name, _) = subcommand(matches)?;
        // `AnySubsystem::drop_in_section` expects the matches of `as`.
        Ok(Self { name: name.to_owned(), matches: matches.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for DropIn {
    fn augment_subcommands(parent: Command) -> Command {
        SUBSYSTEMS.iter().fold(parent, |parent, subsystem| subsystem.add_drop_ins(parent))
    }

    fn augment_subcommands_for_update(parent: Command) -> Command {
        Self::augment_subcommands(parent)
    }

    fn has_subcommand(name: &str) -> bool {
        Self::augment_subcommands(Command::new("as")).find_subcommand(name).is_some()
    }
}

fn subcommand(matches: &ArgMatches) -> Result<(&str, &ArgMatches), clap::Error> {
    matches.subcommand().ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))
}

fn unknown() -> clap::Error {
    clap::Error::new(ErrorKind::InvalidSubcommand)
}

impl std::fmt::Debug for SubsystemCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.subsystem.name())
    }
}

impl std::fmt::Debug for DropIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}
