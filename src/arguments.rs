//! The command line.

use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};
use orchestrator_subsystem::{ConfigArguments, OutputFormat};

#[cfg(any(feature = "queue", feature = "provenance-sqlite"))]
use crate::demo;
use crate::{
    cli::{ClientCommand, Target, exit_code::ExitCode},
    config::{Sources, init::InitArguments},
    run,
    subsystems::DropIn,
};

/// Run a queue, a provenance storage, an ingester, a producer and a catalog agent in one supervised process.
///
/// Without a command, run the configured subsystems. `orchestrator tree` shows the children (supervised
/// parts) of the running instance.
#[derive(Debug, Parser)]
#[command(disable_version_flag = true, after_help = ExitCode::TABLE, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArguments,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print the version; with --verbose also the commit, the features and the versions of libraries
    #[arg(short = 'V', long)]
    pub(crate) version: bool,
}

impl Arguments {
    /// Reads the command line.
    ///
    /// # Errors
    /// It is not one of this program, or asks for help.
    pub(crate) fn read(line: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, clap::Error> {
        let arguments = Self::from_arg_matches(&Self::definition().try_get_matches_from(line)?)?;
        if arguments.command.is_some() && arguments.run.is_given() {
            let text = "--config, --set, --only, --quiet and --verbose follow the command, for example `orchestrator check --only queue`";
            return Err(Self::definition().error(ErrorKind::ArgumentConflict, text));
        }
        Ok(arguments)
    }

    /// Only commands to an instance show the options that select it.
    pub(crate) fn definition() -> clap::Command {
        let target = Target::augment_args(clap::Command::default());
        let clients = ClientCommand::augment_subcommands(clap::Command::default());
        let hidden = target.get_arguments().map(|argument| argument.get_id().clone());
        let whole =
            hidden.fold(Self::command(), |whole, id| whole.mut_arg(id, |argument| argument.hide(true)));
        // A command's own option takes the place of the one that it would get from above.
        clients
            .get_subcommands()
            .fold(whole, |whole, client| whole.mut_subcommand(client.get_name(), Target::augment_args))
    }
}

/// Filter of the log with `--quiet`, and with `--verbose`.
const QUIET: &str = "warn";
const VERBOSE: &str = "info,orchestrator=debug";

/// Options of a run, and of commands that read its configuration.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    /// Run only this subsystem: queue, provenance, ingester, producer or catalog
    #[arg(long, value_name = "SUBSYSTEM")]
    pub(crate) only: Option<String>,
    /// Log warnings and errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Log more about what the program does
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

impl RunArguments {
    fn is_given(&self) -> bool {
        !self.config.config.is_empty()
            || !self.config.set.is_empty()
            || self.only.is_some()
            || self.quiet
            || self.verbose
    }

    pub(crate) fn sources(&self) -> Sources {
        let mut sources = Sources::new(&self.config, self.only.as_deref());
        let filter = self.quiet.then_some(QUIET).or(self.verbose.then_some(VERBOSE));
        sources.sets.extend(filter.map(|filter| format!("telemetry.filter={filter}")));
        sources
    }
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the configured subsystems (the default)
    Run(RunArguments),
    /// Check the configuration and print the tree that would run, without starting anything
    ///
    /// Example: orchestrator check --config /etc/orchestrator/orchestrator.toml
    Check {
        #[command(flatten)]
        run: RunArguments,
        /// Ignore keys such as `dsn_file` whose file does not exist here, for the configuration of another
        /// machine or of a container
        #[arg(long)]
        ignore_missing_files: bool,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Copy all that an instance keeps into a new directory, while it runs or not
    ///
    /// The copy has databases, pause, history, audit log and configuration files, as they are after the
    /// command has begun. What servers keep, such as PostgreSQL, MongoDB and RabbitMQ, is not in it: the
    /// output names it.
    ///
    /// Example: orchestrator backup /var/backups/orchestrator-1 --config /etc/orchestrator/orchestrator.toml
    Backup {
        /// Directory, which must not exist
        directory: PathBuf,
        #[command(flatten)]
        run: RunArguments,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Put a backup back to the paths of the configuration, while no instance runs
    ///
    /// The backup is checked first. All files are replaced or none, also if the command is killed; the former
    /// ones stay, with the suffix .before-restore. A configuration file that exists is not replaced.
    ///
    /// Example: orchestrator restore /var/backups/orchestrator-1 --config /etc/orchestrator/orchestrator.toml
    Restore {
        /// Directory that `orchestrator backup` wrote
        directory: PathBuf,
        #[command(flatten)]
        run: RunArguments,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Print a completion script for a shell
    ///
    /// Example: orchestrator completions bash > /etc/bash_completion.d/orchestrator
    Completions {
        /// Shell that reads the script
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write a man page for each command into a directory
    ///
    /// Example: orchestrator man /usr/local/share/man/man1
    Man {
        /// Directory, which is made if it does not exist
        directory: PathBuf,
    },
    /// Run in place of another program, with that program's command line
    ///
    /// Example: orchestrator as nixpkgs-update-supervisor queue.db fetchers/ worker.sock
    As {
        /// Serve the admin endpoint on this loopback address, e.g. 127.0.0.1:7117 [default: no TCP port]; if
        /// it is in use, the program starts with a warning
        #[arg(long, value_name = "ADDR")]
        admin: Option<String>,
        /// Print the commented configuration of this command line and its environment, and start nothing;
        /// before the other program's name it is never taken for an argument of that program
        #[arg(long, global = true)]
        print_config: bool,
        /// Set one key of the configuration that is made from this command line, e.g. `--set
        /// queue.hold_secs=3600`; repeatable
        // The top level has an argument with the id `set`, whose values would be added.
        #[arg(long = "set", id = "drop_in_set", global = true, value_name = "SECTION.KEY=VALUE")]
        sets: Vec<String>,
        #[command(subcommand)]
        original: DropIn,
    },
    /// Print the configuration or its schema, or write a new configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Run an instance in a temporary directory, under load with injected faults, and report the outcome of
    /// every job and row
    ///
    /// Example: orchestrator demo --for 20s
    #[cfg(any(feature = "queue", feature = "provenance-sqlite"))]
    Demo(demo::DemoArguments),
    /// Resolve addresses of a stack for an instance of this binary
    #[command(name = run::SYMBOLS, hide = true)]
    Symbols,
    #[command(flatten)]
    Client(ClientCommand),
}

/// Commands that print or write a configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the effective configuration as TOML, each key with the source of its value
    ///
    /// Example: orchestrator config print --config /etc/orchestrator/orchestrator.toml
    Print {
        #[command(flatten)]
        run: RunArguments,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Write a commented configuration that replaces another program's, with the values of its configuration
    /// file
    ///
    /// For a program that has a command line only, see `orchestrator as --print-config`.
    ///
    /// Example: orchestrator config init --for fproducer --from /etc/tanglenomicon/config.yaml --output
    /// producer.toml
    Init(InitArguments),
    /// Print the JSON Schema of a configuration file, for editors
    ///
    /// Example: orchestrator config schema > schema.json
    Schema,
}
