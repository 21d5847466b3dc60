//! `orchestrator`: a queue, a provenance storage, an ingester, a producer and a catalog agent in one supervised process. This file
//! parses the arguments, then runs, checks, or sends a command to a running instance.

mod backup;
mod banner;
mod cli;
mod completion;
mod config;
#[cfg(any(feature = "queue", feature = "provenance-sqlite"))]
mod demo;
mod drop_in;
mod given_up;
mod init_process;
mod limits;
mod progress;
mod reload;
mod results;
mod run;
mod service_manager;
mod signals;
mod startup;
mod state_owner;
mod stopping;
mod subsystems;
mod telemetry;
mod topology;
mod version;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, CommandFactory, Parser, Subcommand, error::ErrorKind};
use orchestrator_admin::Binding;
use orchestrator_subsystem::{
    ConfigArguments, OriginalContext, OutputFormat,
    output::escape_lines,
    redaction::{may_quote_secret, redact},
};
use orchestrator_supervise::StandardStream;
use serde_json::json;

use crate::{
    cli::{ClientCommand, Target, colour, exit_code::ExitCode},
    config::{Config, ProgramConfig, Sources, init::InitArguments},
    results::{exit_code, print, print_or_fail, report_error, write_out},
    subsystems::DropIn,
    topology::ROOT,
};

/// Run a queue, a provenance storage, an ingester, a producer and a catalog agent in one supervised process.
///
/// Without a command, run the configured subsystems. `orchestrator tree` shows the children (supervised parts) of the running
/// instance.
#[derive(Debug, Parser)]
#[command(disable_version_flag = true, after_help = ExitCode::TABLE, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
    #[command(flatten)]
    target: Target,
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
    /// With --version: print also the commit, the features and the versions of libraries
    #[arg(long, requires = "version")]
    verbose: bool,
}

#[derive(Debug, Clone, Default, Args)]
struct RunArguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// Run only this subsystem: queue, provenance, ingester, producer or catalog
    #[arg(long, value_name = "SUBSYSTEM")]
    only: Option<String>,
}

impl RunArguments {
    /// Returns true if the command line has one of these arguments.
    fn is_given(&self) -> bool {
        !self.config.config.is_empty() || !self.config.set.is_empty() || self.only.is_some()
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the configured subsystems (the default)
    Run(RunArguments),
    /// Check the configuration and print the tree that would run, without starting anything
    ///
    /// Example: orchestrator check --config /etc/orchestrator/orchestrator.toml
    Check {
        #[command(flatten)]
        run: RunArguments,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Copy all that an instance keeps into a new directory, while it runs or not
    ///
    /// The copy has databases, pause, history, audit log and configuration files, as they are after the command has begun. What servers
    /// keep, such as PostgreSQL, MongoDB and RabbitMQ, is not in it: the output names it.
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
    /// The backup is checked first. All files are replaced or none, also if the command is killed; the former ones stay, with the suffix
    /// .before-restore. A configuration file that exists is not replaced.
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
        /// Serve the admin endpoint on this loopback address, e.g. 127.0.0.1:7117 [default: no TCP port]; if it is in use, the
        /// program starts with a warning
        #[arg(long, value_name = "ADDR")]
        admin: Option<String>,
        /// Set one key of the configuration that is made from this command line, e.g. `--set queue.hold_secs=3600`; repeatable
        // The top level has an argument with the id `set`, whose values would be added.
        #[arg(long = "set", id = "drop_in_set", global = true, value_name = "SECTION.KEY=VALUE")]
        sets: Vec<String>,
        #[command(subcommand)]
        original: DropIn,
    },
    /// Print the configuration or its schema, or write a new configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Run an instance in a temporary directory, under load with injected faults, and report the outcome of every job and row
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
enum ConfigCommand {
    /// Print the effective configuration as TOML, each key with the source of its value
    ///
    /// Example: orchestrator config print --config /etc/orchestrator/orchestrator.toml
    Print {
        #[command(flatten)]
        run: RunArguments,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Write a commented configuration that replaces another program's, with the values of its configuration or unit file
    ///
    /// Example: orchestrator config init --for fproducer --from /etc/tanglenomicon/config.yaml --output producer.toml
    Init(InitArguments),
    /// Print the JSON Schema of a configuration file, for editors
    ///
    /// Example: orchestrator config schema > schema.json
    Schema,
}

fn main() -> std::process::ExitCode {
    let arguments = match Arguments::try_parse_from(drop_in::arguments(std::env::args_os())) {
        Ok(arguments) => arguments,
        Err(error) => return report_usage_error(&error),
    };
    if arguments.command.is_some() && arguments.run.is_given() {
        let text =
            "--config, --set and --only follow the command, for example `orchestrator check --only queue`";
        return report_usage_error(&Arguments::command().error(ErrorKind::ArgumentConflict, text));
    }
    if arguments.version {
        return print(Ok(if arguments.verbose { version::long() } else { version::short() })).into();
    }
    let runs = matches!(arguments.command, None | Some(Command::Run(_) | Command::As { .. }));
    if runs && init_process::is_needed() {
        return init_process::run().unwrap_or_else(|error| report_error(&error).into());
    }
    let code = match arguments.command {
        Some(Command::Client(command)) => {
            cli::run(&command, &arguments.target, &mut std::io::stdout().lock())
        }
        Some(Command::Run(run)) => start(&run),
        None => start(&arguments.run),
        Some(Command::Check { run, format }) => check(&run, format),
        Some(Command::Backup { directory, run, format }) => print_or_fail(back_up(&directory, &run, format)),
        Some(Command::Restore { directory, run, format }) => print_or_fail(restore(&directory, &run, format)),
        Some(Command::Completions { shell }) => completions(shell),
        Some(Command::Man { directory }) => exit_code(man(&directory)),
        Some(Command::Config(ConfigCommand::Print { run, format })) => {
            let sources = Sources::from(&run);
            print(if format.json {
                Config::effective_json(&sources).map(|effective| format.print(&effective))
            } else {
                Config::print_effective(&sources)
            })
        }
        Some(Command::Config(ConfigCommand::Init(arguments))) => init(&arguments),
        Some(Command::Config(ConfigCommand::Schema)) => print(Ok(Config::schema())),
        Some(Command::Symbols) => symbols(),
        #[cfg(any(feature = "queue", feature = "provenance-sqlite"))]
        Some(Command::Demo(arguments)) => exit_code(demo::run(&arguments)),
        Some(Command::As { admin, sets, original }) => {
            exit_code(run_drop_in(admin.as_deref(), &sets, &original))
        }
    };
    StandardStream::flush();
    code.into()
}

/// Texts of the standard library's parsers, and ours.
const NUMBERS: [(&str, &str); 3] = [
    ("invalid digit found in string", "write a whole number"),
    ("cannot parse integer from empty string", "write a whole number"),
    ("invalid float literal", "write a number"),
];

/// Prints an error of the command line, without the passwords in the arguments that it quotes.
fn report_usage_error(error: &clap::Error) -> std::process::ExitCode {
    if !error.use_stderr() {
        error.exit();
    }
    let mut text = error.render().to_string();
    for argument in std::env::args_os().skip(1) {
        let argument = argument.to_string_lossy();
        for piece in [Some(argument.as_ref()), argument.split_once('=').map(|(_, value)| value)] {
            // A password may hold blanks and line ends, so whole arguments are replaced first.
            let piece = piece.filter(|piece| may_quote_secret(piece));
            text = piece.map_or(text.clone(), |piece| text.replace(piece, &redact(piece)));
        }
    }
    let text = NUMBERS.iter().fold(redact(&text), |text, (from, to)| text.replace(from, to));
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let _ = std::io::stderr().lock().write_all(colour::error_line(text.trim_end()).as_bytes());
    std::process::ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn start(arguments: &RunArguments) -> ExitCode {
    let sources = Sources::from(arguments);
    let config = match Config::load(&sources) {
        Ok(config) => config,
        Err(error) => return report_error(&error),
    };
    exit_code(run::run(&config, Some(sources)))
}

fn run_drop_in(admin: Option<&str>, sets: &[String], original: &DropIn) -> Result<ExitCode> {
    let mut context = OriginalContext::of_process();
    // A drop-in is configured by its command line and the original's variables, without configuration files.
    let program = ProgramConfig {
        admin: drop_in::admin(admin),
        telemetry: drop_in::telemetry(&context)?,
        ..ProgramConfig::default()
    };
    let sections = vec![original.section(&mut context)?];
    let config = Config { program, sections, admin_binding: Binding::Optional, ..Config::default() };
    let mut config = config.with_assignments(sets)?;
    config.warnings = context.take_warnings();
    run::run(&config, None)
}

fn check(arguments: &RunArguments, format: OutputFormat) -> ExitCode {
    let outline =
        Config::load(&arguments.into()).and_then(|config| Ok(topology::build(&config)?.root.outline(ROOT)));
    if !format.json {
        return print(outline);
    }
    let code = if outline.is_ok() { ExitCode::Ok } else { ExitCode::Config };
    let answer = match outline {
        Ok(outline) => json!({ "valid": true, "tree": outline.lines().collect::<Vec<_>>() }),
        Err(error) => json!({ "valid": false, "errors": config::report::errors(&error) }),
    };
    let printed = print(Ok(format.print(&answer)));
    if printed == ExitCode::Ok { code } else { printed }
}

fn back_up(directory: &Path, arguments: &RunArguments, format: OutputFormat) -> Result<String> {
    let sources = Sources::from(arguments);
    let config = Config::load(&sources)?;
    let Some(manifest) = backup::back_up(directory, &config, &sources, note)? else {
        return Ok(String::new());
    };
    Ok(if format.json { format.print(&manifest) } else { manifest.list() })
}

fn restore(directory: &Path, arguments: &RunArguments, format: OutputFormat) -> Result<String> {
    let Some(restored) = backup::restore(directory, &arguments.into())? else { return Ok(String::new()) };
    Ok(if format.json { format.print(&restored) } else { restored.text() })
}

/// Prints notes to standard error.
fn note(notes: impl IntoIterator<Item = String>) {
    for note in notes {
        let _ = writeln!(std::io::stderr().lock(), "orchestrator: {}", escape_lines(&redact(&note)));
    }
}

/// Writes the man pages.
fn man(directory: &Path) -> Result<ExitCode> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    clap_mangen::generate_to(Arguments::command().version(env!("CARGO_PKG_VERSION")), directory)
        .with_context(|| format!("cannot write to {}", directory.display()))?;
    Ok(ExitCode::Ok)
}

/// Writes a configuration. The notes about it go to standard error.
fn init(arguments: &InitArguments) -> ExitCode {
    let verify = |config: &Config| topology::build(config).map(drop);
    print(config::init::run(arguments, verify).map(|written| {
        note(written.notes);
        written.text
    }))
}

fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "orchestrator", &mut script);
    write_out(&script)
}

/// Answers the instance that started this process, which keeps the memory of debug information out of the instance.
fn symbols() -> ExitCode {
    let resolved = orchestrator_supervise::resolve_symbols(std::io::stdin().lock(), std::io::stdout().lock());
    resolved.map_or_else(|error| report_error(&error.into()), |()| ExitCode::Ok)
}

impl From<&RunArguments> for Sources {
    fn from(arguments: &RunArguments) -> Self {
        Sources::new(&arguments.config, arguments.only.as_deref())
    }
}
