//! `orchestrator`: a queue, a provenance storage, an ingester, a producer and a catalog agent in one
//! supervised process. This file parses the arguments, then runs, checks, or sends a command to a running
//! instance.

mod arguments;
mod backup;
mod banner;
mod cli;
mod complete;
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
use std::mem;
use std::path::Path;

use anyhow::{Context, Result};
use orchestrator_admin::Binding;
use orchestrator_subsystem::{
    OriginalContext, OutputFormat,
    output::escape_lines,
    redaction::{may_quote_secret, redact},
};
use orchestrator_supervise::StandardStream;
use serde_json::json;

use crate::{
    arguments::{Arguments, Command, ConfigCommand, RunArguments},
    cli::{colour, exit_code::ExitCode},
    config::{Config, ProgramConfig, Sources, init::Written},
    results::{exit_code, print, print_or_fail, report_error, write_out},
    subsystems::DropIn,
    topology::ROOT,
};

/// Variable with which a shell asks for completions.
const COMPLETE: &str = "ORCHESTRATOR_COMPLETE";

fn main() -> std::process::ExitCode {
    clap_complete::CompleteEnv::with_factory(|| complete::add_to(Arguments::definition()))
        .var(COMPLETE)
        .complete();
    let arguments = match Arguments::read(drop_in::arguments(std::env::args_os())) {
        Ok(arguments) => arguments,
        Err(error) => return report_usage_error(&error),
    };
    if arguments.version {
        return print(Ok(if arguments.run.verbose { version::long() } else { version::short() })).into();
    }
    let runs =
        matches!(arguments.command, None | Some(Command::Run(_) | Command::As { print_config: false, .. }));
    if runs && init_process::is_needed() {
        return init_process::run().unwrap_or_else(|error| report_error(&error).into());
    }
    let code = match arguments.command {
        Some(Command::Client(command)) => {
            cli::run(&command, &arguments.target, &mut std::io::stdout().lock())
        }
        Some(Command::Run(run)) => start(&run),
        None => start(&arguments.run),
        Some(Command::Check { run, ignore_missing_files, format }) => {
            check(Sources { ignores_missing_files: ignore_missing_files, ..run.sources() }, format)
        }
        Some(Command::Backup { directory, run, format }) => print_or_fail(back_up(&directory, &run, format)),
        Some(Command::Restore { directory, run, format }) => print_or_fail(restore(&directory, &run, format)),
        Some(Command::Completions { shell }) => completions(shell),
        Some(Command::Man { directory }) => exit_code(man(&directory)),
        Some(Command::Config(ConfigCommand::Print { run, format })) => {
            let sources = run.sources().announced();
            print(if format.json {
                Config::effective_json(&sources).map(|effective| format.print(&effective))
            } else {
                Config::print_effective(&sources)
            })
        }
        Some(Command::Config(ConfigCommand::Init(arguments))) => {
            print_written(config::init::run(&arguments, verify))
        }
        Some(Command::Config(ConfigCommand::Schema)) => print(Ok(Config::schema())),
        Some(Command::Symbols) => symbols(),
        #[cfg(any(feature = "queue", feature = "provenance-sqlite"))]
        Some(Command::Demo(arguments)) => exit_code(demo::run(&arguments)),
        Some(Command::As { admin, print_config, sets, original }) => {
            let config = drop_in_config(admin.as_deref(), &sets, &original);
            if print_config {
                print_written(
                    config.and_then(|config| config::init::of_drop_in(original.name(), config, verify)),
                )
            } else {
                exit_code(config.and_then(|config| run::run(&config, None)))
            }
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
    let sources = arguments.sources();
    let config = match Config::load(&sources) {
        Ok(config) => config,
        Err(error) => return report_error(&error),
    };
    exit_code(run::run(&config, Some(sources)))
}

fn drop_in_config(admin: Option<&str>, sets: &[String], original: &DropIn) -> Result<Config> {
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
    Ok(config)
}

fn check(sources: Sources, format: OutputFormat) -> ExitCode {
    let outline = Config::load(&sources.announced()).and_then(|mut config| {
        note(mem::take(&mut config.warnings));
        Ok(topology::build(&config)?.root.outline(ROOT))
    });
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
    let sources = arguments.sources().announced();
    let config = Config::load(&sources)?;
    let Some(manifest) = backup::back_up(directory, &config, &sources, note)? else {
        return Ok(String::new());
    };
    Ok(if format.json { format.print(&manifest) } else { manifest.list() })
}

fn restore(directory: &Path, arguments: &RunArguments, format: OutputFormat) -> Result<String> {
    let Some(restored) = backup::restore(directory, &arguments.sources().announced())? else {
        return Ok(String::new());
    };
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
    clap_mangen::generate_to(Arguments::definition().version(env!("CARGO_PKG_VERSION")), directory)
        .with_context(|| format!("cannot write to {}", directory.display()))?;
    Ok(ExitCode::Ok)
}

/// Prints a new configuration. The notes about it go to standard error.
fn print_written(result: Result<Written>) -> ExitCode {
    print(result.map(|written| {
        note(written.notes);
        written.text
    }))
}

/// Checks a new configuration as a start does.
fn verify(config: &Config) -> Result<()> {
    topology::build(config).map(drop)
}

/// Prints the script that lets a shell ask this program for completions.
fn completions(shell: clap_complete::Shell) -> ExitCode {
    let (name, mut script) = ("orchestrator", Vec::new());
    let shells = clap_complete::env::Shells::builtins();
    let written = shells
        .completer(&shell.to_string())
        .map_or(Ok(()), |shell| shell.write_registration(COMPLETE, name, name, name, &mut script));
    written.map_or_else(|error| report_error(&error.into()), |()| write_out(&script))
}

/// Answers the instance that started this process, which keeps the memory of debug information out of the
/// instance.
fn symbols() -> ExitCode {
    let resolved = orchestrator_observe::resolve_symbols(std::io::stdin().lock(), std::io::stdout().lock());
    resolved.map_or_else(|error| report_error(&error.into()), |()| ExitCode::Ok)
}
