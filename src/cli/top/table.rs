//! The rows as one table of text, for pipes, `--once` and `--json`.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use orchestrator_admin::ascii::format_duration;
use orchestrator_subsystem::{CommandError, columns::align, output, wire::TreeSnapshot};
use orchestrator_supervise::without_root;

use crate::cli::{
    client::Client,
    colour,
    top::{
        TopArguments,
        request::fetch_tree,
        rows::{Row, micros, rows},
    },
};

/// Right-aligned columns: restarts, depth, rate, p99.
const RIGHT: [usize; 4] = [2, 3, 4, 5];
/// Control sequence that clears the terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

impl TopArguments {
    /// Prints the table until the output is closed, or once with `--once`.
    pub(super) async fn print(&self, client: &Client, out: &mut dyn Write) -> Result<(), CommandError> {
        let clear = std::io::stdout().is_terminal() && !self.format.json && !self.once;
        let path = self.path.as_deref();
        let mut before = fetch_tree(client, path).await?;
        loop {
            tokio::time::sleep(Duration::from_secs_f64(self.interval)).await;
            match fetch_tree(client, path).await {
                Ok(now) => {
                    let text = self.show(&before, &now);
                    write!(out, "{}{}", if clear { CLEAR } else { "" }, output::escape_lines(&text))?;
                    before = now;
                }
                Err(error) if self.once => return Err(error),
                // The process may be restarting; the table returns with it.
                Err(
                    error @ (CommandError::Unreachable { .. }
                    | CommandError::ConnectionLost { .. }
                    | CommandError::ResponseTimeout { .. }),
                ) => {
                    writeln!(out, "{}", output::escape_lines(&error.to_string()))?;
                }
                Err(error) => return Err(error),
            }
            out.flush()?;
            if self.once {
                return Ok(());
            }
        }
    }

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
        colour::fit_stdout(&table(now.uptime_ms, &rows))
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
    use orchestrator_subsystem::OutputFormat;

    use super::*;
    use crate::cli::top::{rows::Sort, snapshots::tree};

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
