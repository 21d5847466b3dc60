//! `orchestrator top`: the children with their rates, as a table that is printed again and again.

mod rows;
#[cfg(test)]
mod snapshots;

use std::{
    io::{IsTerminal, Write, stdout},
    time::Duration,
};

use clap::Args;
use orchestrator_admin::ascii::format_duration;
use orchestrator_observe::without_root;
use orchestrator_subsystem::{
    CommandError, OutputFormat,
    columns::align,
    output::escape_lines,
    wire::{TreeSnapshot, tree_url},
};

use self::rows::{Row, Sort, micros, rows};
use crate::cli::{client::Client, colour};

/// Right-aligned columns: restarts, depth, rate, p99.
const RIGHT: [usize; 4] = [2, 3, 4, 5];

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
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = interval)]
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

/// Prints tables until the output is closed, or one with `--once`. On a terminal, each takes the place of the
/// one before.
pub(crate) async fn run(
    arguments: &TopArguments,
    client: &Client,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
    let repaints = !arguments.once && !arguments.format.json && stdout().is_terminal() && !is_dumb;
    let url = tree_url(arguments.path.as_deref());
    let mut before = client.fetch(&url, "tree").await?;
    let mut table = String::new();
    loop {
        tokio::time::sleep(Duration::from_secs_f64(arguments.interval)).await;
        let text = match client.fetch(&url, "tree").await {
            Ok(now) => {
                table = arguments.show(&before, &now);
                before = now;
                table.clone()
            }
            // The process may be restarting; the table returns with it.
            Err(
                error @ (CommandError::Unreachable { .. }
                | CommandError::ConnectionLost { .. }
                | CommandError::ResponseTimeout { .. }),
            ) if !arguments.once => format!("{error}\n{}", if repaints { &table } else { "" }),
            Err(error) => return Err(error),
        };
        let mut text = escape_lines(&text);
        if !arguments.format.json {
            text = colour::fit_stdout(&text);
        }
        if repaints {
            text = colour::repaint(&text);
        }
        out.write_all(text.as_bytes())?;
        out.flush()?;
        if arguments.once {
            return Ok(());
        }
    }
}

impl TopArguments {
    fn show(&self, before: &TreeSnapshot, now: &TreeSnapshot) -> String {
        let mut rows = rows(before, now);
        if let Some(text) = self.filter.as_ref().map(|text| text.to_lowercase()) {
            let matches = |cell: &&String| cell.to_lowercase().contains(&text);
            rows.retain(|row| [&row.path, &row.state, &row.link].iter().any(matches));
        }
        rows.sort_by(|a, b| self.sort.compare(a, b));
        if self.format.json {
            return self.format.print(&rows);
        }
        table(now.uptime_ms, &rows)
    }
}

fn table(uptime_ms: u64, rows: &[Row]) -> String {
    let head = ["CHILD", "STATE", "RESTARTS", "DEPTH", "RATE/S", "P99", "LINK"];
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(|row| match &row.peer {
        Some(peer) => {
            let mut cells = vec![format!("  {peer}")];
            cells.resize(6, String::new());
            cells.push(row.link.clone());
            cells
        }
        None => vec![
            without_root(&row.path).to_owned(),
            row.state.clone(),
            row.restarts.to_string(),
            row.depth.to_string(),
            format!("{:.1}", row.rate),
            micros(row.p99_us),
            row.link.clone(),
        ],
    }));
    format!("up {}\n{}", format_duration(uptime_ms), align(&cells, &RIGHT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::snapshots::tree;

    #[test]
    fn invalid_intervals_are_refused() {
        assert!(interval("0").is_err() && interval("x").is_err() && interval("NaN").is_err());
        assert_eq!(interval("0.5"), Ok(0.5));
    }

    #[test]
    fn rows_are_filtered_and_sorted() {
        let mut tables = TopArguments {
            path: None,
            sort: Sort::Restarts,
            filter: None,
            interval: 1.0,
            once: true,
            format: OutputFormat::default(),
        };
        let (before, now) = (tree(0, 0, 0), tree(1_000, 1_000, 40));
        let text = tables.show(&before, &now);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "up 1s");
        assert!(lines[2].starts_with("b ") && lines[2].contains("backing_off"), "{text}");
        tables.sort = Sort::Rate;
        tables.filter = Some("running".to_owned());
        let text = tables.show(&before, &now);
        assert!(text.lines().nth(2).unwrap().starts_with("a "), "{text}");
        assert!(!text.contains("\nb ") && text.contains("40.0") && text.contains("2ms"), "{text}");
        for ignoring_case in ["O/A", "RunnIng"] {
            tables.filter = Some(ignoring_case.to_owned());
            assert!(tables.show(&before, &now).contains("\na "), "{ignoring_case}");
        }
    }
}
