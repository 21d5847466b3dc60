//! `orchestrator`: one supervised process that hands out work. This file turns arguments into a run, a check or a
//! command to a running instance; it knows nothing of how subsystems work.

#[cfg(not(any(feature = "queue")))]
compile_error!("a build without any subsystem has nothing to run: add --features queue");

mod cli;
mod config;
mod dropin;
mod run;
mod signals;
mod telemetry;
mod topology;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use orchestrator_admin::Binding;

use crate::{
    cli::{ClientCommand, Target, exit_code::ExitCode},
    config::{Config, Sources},
    dropin::DropIn,
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
    /// A TOML file with configuration; may be repeated, later files win
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// One value, e.g. `--set queue.hold_secs=3600`; may be repeated, wins over files
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
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
    #[command(flatten)]
    Client(ClientCommand),
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let code = match arguments.command {
        Some(Command::Client(command)) => {
            cli::run(&command, &arguments.target, &mut std::io::stdout().lock())
        }
        Some(Command::Run(run)) => start(&run),
        None => start(&arguments.run),
        Some(Command::Check(run)) => check(&run),
        Some(Command::As { admin, original }) => report(stand_in(admin.as_deref(), &original)),
    };
    code.into()
}

fn start(arguments: &RunArguments) -> ExitCode {
    let config = match Config::load(&arguments.into()) {
        Ok(config) => config,
        Err(error) => return complain(&error),
    };
    report(run::run(&config, Binding::Required, &greeting(&config)))
}

fn stand_in(admin: Option<&str>, original: &DropIn) -> Result<ExitCode> {
    run::run(&original.config(admin), Binding::Optional, "")
}

fn check(arguments: &RunArguments) -> ExitCode {
    use std::io::Write;
    let checked = Config::load(&arguments.into()).and_then(|config| {
        topology::check(&config)?;
        Ok(topology::root(&config, Binding::Required).outline(ROOT))
    });
    match checked {
        Ok(outline) => {
            // A reader that went away has seen enough.
            let _ = write!(std::io::stdout().lock(), "{outline}");
            ExitCode::Ok
        }
        Err(error) => complain(&error),
    }
}

fn report(ended: Result<ExitCode>) -> ExitCode {
    ended.unwrap_or_else(|error| complain(&error))
}

/// Everything that keeps a run from starting is the configuration's, or its surroundings', fault.
fn complain(error: &anyhow::Error) -> ExitCode {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "orchestrator: {error:#}");
    ExitCode::Config
}

/// Where a fresh run listens and how to hand it a first job.
fn greeting(config: &Config) -> String {
    let mut text = format!("orchestrator {}\n", env!("CARGO_PKG_VERSION"));
    if let Some(admin) = &config.admin {
        text.push_str(&admin.greeting());
    }
    #[cfg(feature = "queue")]
    if let Some(queue) = &config.queue {
        text.push_str(&queue.greeting());
    }
    text
}

impl From<&RunArguments> for Sources {
    fn from(arguments: &RunArguments) -> Self {
        Sources { files: arguments.config.clone(), sets: arguments.set.clone(), only: arguments.only.clone() }
    }
}
