//! `orchestrator top`: the children with their rates, on the full screen of a terminal or as tables of text.

mod crash;
mod details;
mod dialogs;
mod drawer;
mod full_screen;
mod input;
mod keys;
mod listing;
mod palette;
mod prompt;
mod request;
mod rows;
#[cfg(test)]
mod snapshots;
mod state;
mod table;
mod terminal;
mod view;

use std::{
    io::{IsTerminal, Write, stdin, stdout},
    time::Duration,
};

use clap::Args;
use orchestrator_subsystem::{CommandError, OutputFormat};

use self::{listing::Listing, rows::Sort};
use crate::cli::client::Client;

/// Arguments of `orchestrator top`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TopArguments {
    /// Show only this child and its descendants; a leading `orchestrator/` is optional
    path: Option<String>,
    /// Sort the rows by this column
    #[arg(long, value_enum, default_value_t = Sort::Path)]
    sort: Sort,
    /// Show only children whose path, state or link contains this text; case does not matter
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Seconds between two refreshes, 0.1 to 3600
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS", value_parser = interval)]
    interval: f64,
    /// Print one table after one interval, and exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    pub(super) format: OutputFormat,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "write a number of seconds".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("write 0.1 to 3600 seconds".to_owned()) }
}

/// Shows the full screen on a terminal. Otherwise, prints tables until the output is closed, or one with
/// `--once`.
pub(crate) async fn run(
    arguments: &TopArguments,
    client: &Client,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    if !arguments.once && !arguments.format.json && is_interactive() {
        let interval = Duration::from_secs_f64(arguments.interval);
        let listing = Listing::new(arguments.sort, arguments.filter.clone().unwrap_or_default());
        return full_screen::run(client, arguments.path.as_deref(), interval, listing).await;
    }
    arguments.print(client, out).await
}

/// True if the process has a terminal that can show a full screen.
fn is_interactive() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && !is_dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_intervals_are_refused() {
        assert!(interval("0").is_err() && interval("x").is_err() && interval("NaN").is_err());
        assert_eq!(interval("0.5"), Ok(0.5));
    }
}
