//! A commented configuration in place of a replaced program: `orchestrator config init` with the values of
//! that program's own configuration file, `orchestrator as --print-config` with those of its command line.

mod commented;
mod files;
mod secret_files;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use orchestrator_subsystem::{
    Original, OriginalContext, OriginalFile, redaction::redact, secret::with_secrets,
};
use orchestrator_text::sanitize_to;
use serde_json::Value;
use tempfile::NamedTempFile;

use self::{commented::Document, files::persist, secret_files::SecretFile};
use super::{Config, Sources, report::one_line, schema::Schema};
use crate::subsystems::{self, Entry, SUBSYSTEMS, Section};

/// Arguments of `config init`.
#[derive(Debug, Clone, Args)]
pub(crate) struct InitArguments {
    /// Program that is replaced: nixpkgs-update-supervisor, swh-provenance-server, dranspose-ingester,
    /// dranspose-http-ingester, fproducer, deriva-agent or deriva-imaging-server
    #[arg(long = "for", value_name = "PROGRAM")]
    program: String,
    /// Take over the values of the program's own configuration file
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Write to this file; addresses with a password are written to files beside it [default: standard
    /// output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long, requires = "output")]
    force: bool,
}

/// A configuration for standard output.
#[derive(Debug)]
pub(crate) struct Written {
    /// The configuration; empty if it was written to a file.
    pub(crate) text: String,
    /// Lines for the operator.
    pub(crate) notes: Vec<String>,
}

/// Check of a configuration, as `orchestrator check` does it.
type Check = fn(&Config) -> Result<()>;

/// Writes the configuration if it passes `verify`.
///
/// # Errors
/// The program is unknown, its configuration cannot be used, or a file exists already.
pub(crate) fn run(arguments: &InitArguments, verify: Check) -> Result<Written> {
    let (subsystem, original) = find(&arguments.program)?;
    let mut context = OriginalContext::default();
    let section = match &arguments.from {
        Some(file) => section_of(file, subsystem, original, &mut context)
            .with_context(|| format!("--from {}", sanitize_to(file.as_os_str().as_encoded_bytes(), 512)))?,
        None => default_section(subsystem, original)?,
    };
    let warnings = context.take_warnings();
    let config = Config { sections: vec![section], warnings, ..Config::default() };
    let directory = arguments.output.as_deref().map(parent);
    if let Some(missing) = directory.as_deref().filter(|directory| !directory.is_dir()) {
        bail!("--output: the directory {} is missing: create it first", missing.display());
    }
    let from = arguments.from.as_ref().map(|file| one_line(file.as_os_str().as_encoded_bytes()));
    let Draft { text, mut notes, secrets } =
        draft(original.name, from.as_deref(), config, directory.as_deref(), verify)?;
    match &arguments.output {
        None => Ok(Written { text, notes }),
        Some(output) => {
            write_files(output, &text, secrets, arguments.force)?;
            notes.push(format!("written: {}", output.display()));
            notes.push(format!("next: orchestrator check --config {}", output.display()));
            Ok(Written { text: String::new(), notes })
        }
    }
}

/// Formats `config`, that of the drop-in for `program`, if it passes `verify`.
///
/// # Errors
/// A configuration file cannot have one of the values.
pub(crate) fn of_drop_in(program: &str, config: Config, verify: Check) -> Result<Written> {
    let from = Some("the command line and the environment");
    let Draft { text, notes, .. } = draft(program, from, config, None, verify)?;
    Ok(Written { text, notes })
}

/// A configuration that passed the check and is not written yet.
struct Draft {
    text: String,
    /// Lines for the operator.
    notes: Vec<String>,
    /// Files with addresses and passwords that the text names.
    secrets: Vec<SecretFile>,
}

/// Formats `config`, whose values are from `from`. The files with secrets are to be in `directory`.
fn draft(
    program: &str,
    from: Option<&str>,
    config: Config,
    directory: Option<&Path>,
    verify: Check,
) -> Result<Draft> {
    let Config { program: own, sections, warnings: mut notes, .. } = config;
    let schema = Schema::whole();
    let mut values = with_secrets(|| -> serde_json::Result<Value> {
        let mut values = serde_json::to_value(own)?;
        for section in &sections {
            values[section.name()] = section.to_json()?;
        }
        Ok(values)
    })?;
    let secrets = secret_files::move_out(&mut values, directory, &schema)?;
    notes.extend(secrets.iter().map(|secret| secret.note(directory.is_some())));
    let to_toml = |values: &Value| {
        Document { program, from, sections: &sections, values, notes: &notes }.to_toml(schema.root())
    };
    let text = to_toml(&values);
    // The check reads the files with the addresses, too.
    check(&to_toml(&secret_files::with_temporary_paths(&values, &secrets)), verify)?;
    Ok(Draft { text, notes, secrets })
}

/// Finds a replaced program by its name.
fn find(program: &str) -> Result<(Entry, &'static Original)> {
    let all = || {
        SUBSYSTEMS
            .iter()
            .flat_map(|subsystem| subsystem.originals().iter().map(|original| (*subsystem, original)))
    };
    let known: Vec<_> = all().map(|(_, original)| original.name).collect();
    let found = all().find(|(_, original)| original.name == program);
    found.with_context(|| {
        let program = redact(&sanitize_to(program, 100));
        format!("--for {program}: this build replaces no such program; it replaces {}", known.join(", "))
    })
}

fn default_section(subsystem: Entry, original: &Original) -> Result<Section> {
    if original.example.is_empty() {
        return subsystem.default_section().map_err(anyhow::Error::msg);
    }
    let example = serde_json::from_str(original.example).context("the example is no JSON")?;
    subsystem.section(example)?.context("the example is empty")
}

/// Translates the program's configuration file.
fn section_of(
    file: &Path,
    subsystem: Entry,
    original: &Original,
    context: &mut OriginalContext,
) -> Result<Section> {
    let text = orchestrator_edge::read_text(file)?;
    let name = original.name;
    let path = fs::canonicalize(file)?;
    match original.file {
        OriginalFile::None => bail!(
            "{name} has no configuration file: use its command line, `orchestrator as --print-config {name} ..`"
        ),
        OriginalFile::Argument => subsystems::drop_in(name, &[path.into_os_string()])?.section(context),
        OriginalFile::Variable(variable) => {
            *context = OriginalContext::new([(variable.into(), path.into_os_string())]);
            subsystems::drop_in(name, &[])?.section(context)
        }
        OriginalFile::Text(translate) => {
            let values = translate(&text, &path, context).map_err(anyhow::Error::msg)?;
            subsystem.section(values)?.context("it configures nothing")
        }
    }
}

fn parent(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::path::absolute(parent).unwrap_or_else(|_| parent.to_owned())
}

fn check(text: &str, verify: Check) -> Result<()> {
    let mut file = NamedTempFile::new()?;
    file.write_all(text.as_bytes())?;
    let sources = Sources { files: vec![file.path().to_owned()], ..Sources::default() };
    let config = Config::load(&sources).context("the result would be invalid; correct these values first")?;
    verify(&config)
}

/// Writes the configuration and the secrets; none of them if a file exists and `force` is false.
fn write_files(output: &Path, text: &str, secrets: Vec<SecretFile>, force: bool) -> Result<()> {
    let paths: Vec<_> = secrets.iter().map(|secret| secret.path.as_path()).chain([output]).collect();
    if let Some(path) = paths.iter().find(|path| !force && path.exists()) {
        bail!("{} exists already: remove it, name another one with --output, or add --force", path.display());
    }
    let directory = parent(output);
    let mut file = NamedTempFile::new_in(&directory)
        .with_context(|| format!("cannot write to {}", directory.display()))?;
    file.write_all(text.as_bytes())?;
    secrets.into_iter().try_for_each(|secret| secret.write(force))?;
    // Its mode is that of a temporary file, 0600: the values may be private.
    persist(file, output, force)
}
