//! The list of subsystems, in the order of their start and in output.

#![cfg_attr(
    not(any(
        feature = "queue",
        feature = "provenance",
        feature = "ingester",
        feature = "producer",
        feature = "catalog"
    )),
    allow(unused, unreachable_code, reason = "a build without a subsystem has nothing to match")
)]

use std::{any::Any, ffi::OsString, path::PathBuf};

use anyhow::Context as _;
use clap::{ArgMatches, Command, FromArgMatches, Subcommand, error::ErrorKind};
use orchestrator_subsystem::{
    BackupSet, Branch, CommandError, Context, Exchange, Original, OriginalContext, ProgressSource, Subsystem,
    entry::{self, BoxError},
};
use orchestrator_supervise::ChildSpec;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

/// Applies the changes of the second section that need no restart to the first, and returns their keys.
pub(crate) type SectionReload = Box<dyn FnMut(&mut Section, &Section) -> Vec<String>>;

macro_rules! subsystems {
    ($($feature:literal => $name:ident($subsystem:ty),)*) => {
        /// A subsystem of this build.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Entry {
            $(#[cfg(feature = $feature)] $name,)*
        }

        /// The section of a configured subsystem.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) enum Section {
            $(#[cfg(feature = $feature)] $name(<$subsystem as Subsystem>::Config),)*
        }

        /// Subsystems of this build.
        pub(crate) static SUBSYSTEMS: &[Entry] = &[$(#[cfg(feature = $feature)] Entry::$name,)*];
        /// Names of all subsystems and of their Cargo features, including those that this build leaves out.
        pub(crate) const NAMES: &[&str] = &[$($feature,)*];

        /// `$body`, with `$type` as the type of the subsystem `$entry`.
        macro_rules! entry {
            ($entry:expr, $type:ident => $body:expr) => {
                match $entry {
                    $(#[cfg(feature = $feature)] Entry::$name => {
                        type $type = $subsystem;
                        $body
                    })*
                }
            };
        }

        /// `$body`, with `$type` as the type of the subsystem of `$section`, and its `$config`.
        macro_rules! section {
            ($section:expr, $type:ident, $config:ident => $body:expr) => {
                match *$section {
                    $(#[cfg(feature = $feature)] Section::$name(ref $config) => {
                        #[allow(dead_code, reason = "a body may need the configuration alone")]
                        type $type = $subsystem;
                        $body
                    })*
                }
            };
        }

        impl Entry {
            /// Reads the section. None if it configures nothing.
            pub(crate) fn section(self, value: Value) -> Result<Option<Section>, serde_json::Error> {
                Ok(match self {
                    $(#[cfg(feature = $feature)] Self::$name => {
                        let config = serde_json::from_value(value)?;
                        <$subsystem>::is_configured(&config).then_some(Section::$name(config))
                    })*
                })
            }

            /// Section for `--only` if the configuration has none.
            pub(crate) fn default_section(self) -> Result<Section, String> {
                match self {
                    $(#[cfg(feature = $feature)] Self::$name => <$subsystem>::default_config().map(Section::$name),)*
                }
            }

            /// Reads the command line of the replaced program `name`. None if it is another subsystem's.
            fn drop_in_section(
                self,
                name: &str,
                matches: &ArgMatches,
                context: &mut OriginalContext,
            ) -> Option<Result<Section, BoxError>> {
                match self {
                    $(#[cfg(feature = $feature)] Self::$name => {
                        let config = entry::drop_in_config::<$subsystem>(name, matches, context)?;
                        Some(config.map(Section::$name))
                    })*
                }
            }
        }

        impl Section {
            fn config_mut(&mut self) -> &mut dyn Any {
                match *self {
                    $(#[cfg(feature = $feature)] Self::$name(ref mut config) => config,)*
                }
            }
        }
    };
}

subsystems! {
    "queue" => Queue(orchestrator_queue::Queue),
    "provenance" => Provenance(orchestrator_provenance::Provenance),
    "ingester" => Ingester(orchestrator_ingester::Ingesters),
    "producer" => Producer(orchestrator_producer::Producer),
    "catalog" => Catalog(orchestrator_catalog::Catalogs),
}

impl Entry {
    /// Name of the section, the feature, the branch of the tree and the commands.
    pub(crate) fn name(self) -> &'static str {
        entry!(self, S => S::NAME)
    }

    /// True if the subsystem runs when no subsystem is configured.
    pub(crate) fn runs_by_default(self) -> bool {
        entry!(self, S => S::RUNS_BY_DEFAULT)
    }

    /// Programs whose configuration `config init` takes over.
    pub(crate) fn originals(self) -> &'static [Original] {
        entry!(self, S => S::ORIGINALS)
    }

    /// JSON schema of the section.
    pub(crate) fn schema(self, generator: &mut SchemaGenerator) -> Schema {
        entry!(self, S => entry::schema::<S>(generator))
    }

    fn add_commands(self, program: Command) -> Command {
        entry!(self, S => entry::add_commands::<S>(program))
    }

    fn add_drop_ins(self, parent: Command) -> Command {
        entry!(self, S => <S as Subsystem>::DropIn::augment_subcommands(parent))
    }
}

/// Each method calls the one of the same name of [`Subsystem`] unless its comment says more.
impl Section {
    /// Name of the section, the branch of the tree and the commands.
    pub(crate) fn name(&self) -> &'static str {
        section!(self, S, _config => S::NAME)
    }

    fn config(&self) -> &dyn Any {
        section!(self, S, config => config)
    }

    /// Includes secrets within [`with_secrets`](orchestrator_subsystem::secret::with_secrets).
    pub(crate) fn to_json(&self) -> Result<Value, serde_json::Error> {
        section!(self, S, config => serde_json::to_value(config))
    }

    pub(crate) fn check(&self) -> Vec<String> {
        section!(self, S, config => S::check(config))
    }

    pub(crate) fn preflight(&self) -> Result<(), BoxError> {
        section!(self, S, config => Ok(S::preflight(config)?))
    }

    pub(crate) fn branch(&self, exchange: &mut Exchange) -> Result<(ChildSpec, SectionReload), BoxError> {
        section!(self, S, config => {
            let Branch { spec, mut reload } = S::branch(config, exchange)?;
            let reload = move |running: &mut Section, fresh: &Section| {
                let configs = running.config_mut().downcast_mut().zip(fresh.config().downcast_ref());
                configs.map(|(running, fresh)| reload(running, fresh)).unwrap_or_default()
            };
            Ok((spec, Box::new(reload)))
        })
    }

    /// Boxes the configuration, for commands; its type is [`Subsystem::Config`].
    pub(crate) fn into_config(self) -> Box<dyn Any> {
        section!(&self, S, config => Box::new(config.clone()))
    }

    fn offers_jobs(&self) -> bool {
        section!(self, S, config => S::offers_jobs(config))
    }

    pub(crate) fn state_dir(&self) -> Option<PathBuf> {
        section!(self, S, config => S::state_dir(config))
    }

    pub(crate) fn files_to_back_up(&self) -> BackupSet {
        section!(self, S, config => S::files_to_back_up(config))
    }

    pub(crate) fn greeting(&self) -> String {
        section!(self, S, config => S::greeting(config))
    }

    pub(crate) fn progress(&self) -> Option<ProgressSource> {
        section!(self, S, config => S::progress(config))
    }
}

/// None if this build does not have it.
pub(crate) fn find(name: &str) -> Option<Entry> {
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
    subsystem: Entry,
    matches: ArgMatches,
}

impl SubsystemCommand {
    pub(crate) async fn run(&self, context: &mut Context<'_>) -> Result<(), CommandError> {
        entry!(self.subsystem, S => entry::run::<S>(&self.matches, context).await)
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
        // `Entry::drop_in_section` expects the matches of `as`.
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
