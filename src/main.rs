//! `orchestrator`: one supervised process that hands out work. This file turns arguments into a run, a check or a
//! command to a running instance; it knows nothing of how subsystems work.

mod cli;
mod completion;
mod config;
mod demo;
mod drop_in;
mod limits;
mod progress;
mod reload;
mod run;
mod service_manager;
mod signals;
mod startup;
mod subsystems;
mod telemetry;
mod topology;

use anyhow::Result;
use clap::{Args, CommandFactory, Parser, Subcommand};
use orchestrator_admin::Binding;
use orchestrator_subsystem::{
    ConfigArguments,
    output::printable,
    redaction::{mentions_secret, scrubbed},
};

use crate::{
    cli::{ClientCommand, Target, exit_code::ExitCode},
    config::{Config, ProgramConfig, Sources},
    subsystems::DropIn,
    topology::ROOT,
};

/// One supervised process that hands out work.
///
/// Without a command it runs. Everything it does shows in `orchestrator tree`.
#[derive(Debug, Parser)]
#[command(version, subcommand_precedence_over_arg = true, after_help = ExitCode::TABLE)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Clone, Default, Args)]
struct RunArguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// Run this subsystem only
    #[arg(long, value_name = "SUBSYSTEM")]
    only: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the configured subsystems (the default)
    Run(RunArguments),
    /// Check the configuration and print the tree that would run, without starting anything
    Check(RunArguments),
    /// Print a completion script for a shell
    ///
    /// Example: orchestrator completions bash > /etc/bash_completion.d/orchestrator
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Run in place of another program, with its command line
    ///
    /// Example: orchestrator as nixpkgs-update-supervisor queue.db fetchers/ worker.sock
    As {
        /// Listen for the admin endpoint on this loopback address (none by default; a busy port is only a warning)
        #[arg(long, value_name = "ADDR")]
        admin: Option<String>,
        #[command(subcommand)]
        original: DropIn,
    },
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Run an instance in a temporary directory, under load and under faults, and account for every job and row
    ///
    /// Example: orchestrator demo --for 20s
    Demo(demo::DemoArguments),
    #[command(flatten)]
    Client(ClientCommand),
}

/// What can be seen of the configuration.
#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the configuration in force as TOML, each key with where its value comes from
    ///
    /// Example: orchestrator config print --config /etc/orchestrator/orchestrator.toml
    Print(RunArguments),
    /// Print the JSON Schema of a configuration file, for editors
    Schema,
}

fn main() -> std::process::ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let code = match arguments.command {
        Some(Command::Client(command)) => {
            cli::run(&command, &arguments.target, &mut std::io::stdout().lock())
        }
        Some(Command::Run(run)) => start(&run),
        None => start(&arguments.run),
        Some(Command::Check(run)) => check(&run),
        Some(Command::Completions { shell }) => completions(shell),
        Some(Command::Config(ConfigCommand::Print(run))) => say(Config::explained(&Sources::from(&run))),
        Some(Command::Config(ConfigCommand::Schema)) => say(Ok(Config::schema())),
        Some(Command::Demo(arguments)) => report(demo::run(&arguments)),
        Some(Command::As { admin, original }) => report(stand_in(admin.as_deref(), &original)),
    };
    code.into()
}

/// Tells what is wrong with the arguments. One that holds a password is quoted without it.
fn usage(error: &clap::Error) -> std::process::ExitCode {
    use std::io::Write;
    if !error.use_stderr() {
        // Help and version.
        error.exit();
    }
    let mut text = error.render().to_string();
    for argument in std::env::args_os().skip(1) {
        let argument = argument.to_string_lossy();
        for piece in [Some(argument.as_ref()), argument.split_once('=').map(|(_, value)| value)] {
            // A password may hold blanks and line ends, which part the words of a text.
            let piece = piece.filter(|piece| mentions_secret(piece));
            text = piece.map_or(text.clone(), |piece| text.replace(piece, &scrubbed(piece)));
        }
    }
    let text = printable(&scrubbed(&text));
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    std::process::ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn start(arguments: &RunArguments) -> ExitCode {
    let sources = Sources::from(arguments);
    let config = match Config::load(&sources) {
        Ok(config) => config,
        Err(error) => return complain(&error),
    };
    report(run::run(&config, Some(sources), Binding::Required, &greeting(&config)))
}

fn stand_in(admin: Option<&str>, original: &DropIn) -> Result<ExitCode> {
    // The command line of the original is all its configuration: files and variables do not reach it.
    let program = ProgramConfig { admin: Some(drop_in::admin(admin)), ..ProgramConfig::default() };
    let config = Config { program, sections: vec![original.section()?] };
    run::run(&config, None, Binding::Optional, "")
}

fn check(arguments: &RunArguments) -> ExitCode {
    say(Config::load(&arguments.into()).and_then(|config| {
        topology::check(&config)?;
        Ok(topology::of(&config, Binding::Required)?.root.outline(ROOT))
    }))
}

/// Prints what was asked for.
fn say(text: Result<String>) -> ExitCode {
    use std::io::Write;
    match text {
        Ok(text) => {
            // A reader that went away has seen enough.
            let _ = write!(std::io::stdout().lock(), "{}", printable(&text));
            ExitCode::Ok
        }
        Err(error) => complain(&error),
    }
}

fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "orchestrator", &mut script);
    use std::io::Write;
    // A reader that went away has seen enough.
    let _ = std::io::stdout().lock().write_all(&script);
    ExitCode::Ok
}

fn report(ended: Result<ExitCode>) -> ExitCode {
    ended.unwrap_or_else(|error| complain(&error))
}

/// Everything that keeps a run from starting is the configuration's, or its surroundings', fault.
fn complain(error: &anyhow::Error) -> ExitCode {
    use std::io::Write;
    let told = printable(&scrubbed(&format!("{error:#}")));
    let _ = writeln!(std::io::stderr().lock(), "orchestrator: {told}");
    ExitCode::Config
}

/// Where a fresh run listens and how to hand it a first job.
fn greeting(config: &Config) -> String {
    let mut text = format!("orchestrator {}\n", env!("CARGO_PKG_VERSION"));
    if let Some(admin) = &config.program.admin {
        text.push_str(&admin.greeting());
    }
    config.sections.iter().for_each(|section| text.push_str(&section.greeting()));
    printable(&text)
}

impl From<&RunArguments> for Sources {
    fn from(arguments: &RunArguments) -> Self {
        Sources::new(&arguments.config, arguments.only.as_deref())
    }
}
