//! Command `orchestrator queue export`: a static page about the queue, written once or repeatedly (CONTRACT
//! QX12).

use std::{io, path::PathBuf, time::Duration};

use clap::Args;
use jiff::SignedDuration;
use orchestrator_queue_rules::listing::LogUrl;
use orchestrator_queue_store::unix_time;
use orchestrator_subsystem::{CommandError, ConfigArguments, Context, Subsystem, parse_duration};

use crate::{config::QueueConfig, edge::page_file::PageFile, page};

/// Time limit of reading the queue. A reader does not delay workers (CONTRACT QR43).
const READ_TIMEOUT: Duration = Duration::from_mins(2);
/// Shortest time between two pages.
const EVERY_MIN: SignedDuration = SignedDuration::from_secs(1);

/// Directory and contents of the page.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct ExportArguments {
    /// Write the page to `index.html` in this directory; created if it is missing
    #[arg(long, value_name = "DIR")]
    html: PathBuf,
    /// Write the page again after this time, such as 5m, until the command is ended
    #[arg(long, value_name = "DURATION", value_parser = every)]
    every: Option<Duration>,
    /// Link each job to its log. `{attr_path}`, `{fetcher}`, `{date}` (UTC day of the last hand-out,
    /// YYYY-MM-DD) and `{started}` (its unix seconds) are replaced, percent-encoded
    #[arg(long, value_name = "TEMPLATE")]
    log_url: Option<LogUrl>,
    #[command(flatten)]
    config: ConfigArguments,
}

/// Writes the page once, or until the process is ended. Later pages that fail are reported and tried again.
pub(super) async fn run<S: Subsystem<Config = QueueConfig>>(
    arguments: &ExportArguments,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let config = context.configuration::<S>(&arguments.config)?;
    let file = PageFile::lock(&arguments.html).map_err(|error| cannot_write(arguments, &error))?;
    let jobs = export(&config, &file, arguments)?;
    context.print(&format!("{}: {jobs} jobs\n", file.path().display()))?;
    let Some(every) = arguments.every else { return Ok(()) };
    loop {
        tokio::time::sleep(every).await;
        if let Err(error) = export(&config, &file, arguments) {
            context.print(&format!("{error}: the page is older until the next try\n"))?;
        }
    }
}

/// Writes the page and returns its number of jobs.
fn export(config: &QueueConfig, file: &PageFile, arguments: &ExportArguments) -> Result<usize, CommandError> {
    let store = config.make_store();
    let listing = store.listing(unix_time(), READ_TIMEOUT).map_err(|error| {
        let path = store.place();
        let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        CommandError::Local(format!(
            "cannot read the queue from {path}: {reason}: name its configuration with --config"
        ))
    })?;
    let written = file.replace(|out| page::write(&listing, arguments.log_url.as_ref(), out));
    written.map_err(|error| cannot_write(arguments, &error))?;
    Ok(listing.groups.len())
}

fn cannot_write(arguments: &ExportArguments, error: &io::Error) -> CommandError {
    let directory = arguments.html.display();
    CommandError::Local(match error.kind() {
        io::ErrorKind::WouldBlock => {
            format!("another export writes to {directory}: end that one, or use another directory")
        }
        _ => format!("cannot write the page to {directory}: {error}"),
    })
}

/// Parses the time between two pages.
fn every(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text).ok().filter(|span| *span >= EVERY_MIN);
    span.and_then(|span| Duration::try_from(span).ok())
        .ok_or_else(|| "expected a duration of at least 1 s, such as 5m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_pages_is_a_duration_of_a_second_or_more() {
        assert_eq!(every("5m"), Ok(Duration::from_mins(5)));
        assert_eq!(every("1s"), Ok(Duration::from_secs(1)));
        for wrong in ["0s", "-1m", "5", "often"] {
            assert!(every(wrong).is_err(), "{wrong}");
        }
    }
}
