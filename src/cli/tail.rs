//! `orchestrator tail`: follows the events of the tree. After a lost connection it resumes at the next event
//! number; the endpoint keeps the last few thousand events.

use std::{collections::BTreeSet, io::Write, time::Duration};

use clap::Args;
use orchestrator_admin::timestamp::rfc3339;
use orchestrator_observe::is_in_branch;
use orchestrator_subsystem::{
    CommandError, output,
    wire::{Event, TreeSnapshot, tree_url},
};
use serde_json::Value;

use crate::cli::{
    client::Client,
    event_stream::{EventStream, ServerEvent},
};

/// Delay before the next connection attempt.
const RETRY: Duration = Duration::from_millis(500);

/// Arguments of `orchestrator tail`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TailArguments {
    /// Show only events of this child and its descendants; a leading `orchestrator/` is optional
    path: Option<String>,
    /// Show only events of these kinds, e.g. exited,commanded
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    kind: Vec<String>,
    /// Show only events whose line of text contains this text; case does not matter
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Show this number of past events first
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N")]
    last: u64,
    /// Exit after the past events
    #[arg(long)]
    no_follow: bool,
    /// Print each event as one line of JSON
    #[arg(long)]
    json: bool,
}

/// State of the reader.
struct Tail<'a> {
    arguments: &'a TailArguments,
    out: &'a mut dyn Write,
    /// Full path of the child whose events are shown.
    path: String,
    kinds: BTreeSet<&'a str>,
    /// Text that a line contains, in lower case.
    text: Option<String>,
    /// Number of the last event received.
    seen: u64,
    /// Number of the event after which to exit.
    until: Option<u64>,
    /// True from a lost connection to the next bytes.
    is_reconnecting: bool,
}

/// Prints events until the output is closed, or all past events with `--no-follow`.
pub(crate) async fn run(
    arguments: &TailArguments,
    client: &Client,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let tree: TreeSnapshot = client.fetch(&tree_url(arguments.path.as_deref()), "tree").await?;
    let mut tail = Tail {
        arguments,
        out,
        path: tree.root.path,
        kinds: arguments.kind.iter().map(String::as_str).collect(),
        text: arguments.text.as_ref().map(|text| text.to_lowercase()),
        seen: tree.seq.saturating_sub(arguments.last),
        until: arguments.no_follow.then_some(tree.seq),
        is_reconnecting: false,
    };
    while !tail.is_done() {
        let mut stream = EventStream::default();
        let route = format!("/v1/events?after={}", tail.seen);
        let ended = client
            .follow(&route, &mut |bytes| {
                tail.is_reconnecting = false;
                let events = stream
                    .take(bytes)
                    .ok_or_else(|| client.unexpected_response("an event longer than 1 MiB".to_owned()))?;
                events.iter().try_for_each(|event| tail.show(event, client))?;
                Ok(!tail.is_done())
            })
            .await;
        match ended {
            Ok(()) if tail.is_done() => {}
            // The process may be restarting. The message appears once for each lost connection.
            Ok(()) | Err(CommandError::Unreachable { .. }) if !arguments.no_follow => {
                if !std::mem::replace(&mut tail.is_reconnecting, true) {
                    tail.note("connection lost, reconnecting")?;
                }
                tokio::time::sleep(RETRY).await;
            }
            Ok(()) => return Err(client.unexpected_response("the stream of events ended".to_owned())),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Tail<'_> {
    fn is_done(&self) -> bool {
        self.until.is_some_and(|until| self.seen >= until)
    }

    fn show(&mut self, event: &ServerEvent, client: &Client) -> Result<(), CommandError> {
        if event.kind == "resync" {
            return self.resynchronise(&event.data);
        }
        let value: Value = serde_json::from_str(&event.data)
            .map_err(|error| client.unexpected_response(format!("invalid event: {error}")))?;
        let known: Option<Event> = serde_json::from_value(value.clone()).ok();
        let seq = value["seq"].as_u64().unwrap_or(self.seen);
        // The numbers of a new process begin at 1, so `seen` may decrease.
        self.seen = seq;
        // An event of a newer version has no text.
        let line = known.map_or_else(|| output::json(&value), |event| line(&event, &value));
        if self.is_selected(&value) && self.contains_text(&line) {
            let line = if self.arguments.json { output::json(&value) } else { line };
            writeln!(self.out, "{line}")?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Handles missed events: they were overwritten before they were read, or the process is a new one.
    fn resynchronise(&mut self, data: &str) -> Result<(), CommandError> {
        let value: Value = serde_json::from_str(data).unwrap_or_default();
        let oldest = value["oldest"].as_u64().unwrap_or(1);
        self.seen = oldest.saturating_sub(1);
        self.note("some events were missed: see `orchestrator tree`")
    }

    /// Prints a message that is not an event.
    fn note(&mut self, text: &str) -> Result<(), CommandError> {
        if !self.arguments.json {
            writeln!(self.out, "-- {text} --")?;
            self.out.flush()?;
        }
        Ok(())
    }

    fn contains_text(&self, line: &str) -> bool {
        self.text.as_ref().is_none_or(|text| line.to_lowercase().contains(text))
    }

    fn is_selected(&self, event: &Value) -> bool {
        let path = event["path"].as_str().unwrap_or_default();
        let kind = event["event"].as_str().unwrap_or_default();
        is_in_branch(path, self.path.as_str()) && (self.kinds.is_empty() || self.kinds.contains(kind))
    }
}

/// Formats an event: `2026-11-21T02:33:35.332Z  orchestrator/queue/fetcher_watcher  started  incarnation=2`.
fn line(event: &Event, value: &Value) -> String {
    format!("{}  {}", rfc3339(event.at_ms), describe(&event.path, value))
}

/// Formats path, kind and fields of an event.
pub(super) fn describe(path: &str, value: &Value) -> String {
    let (path, kind) = (output::escape_line(path), value["event"].as_str().unwrap_or("?"));
    let mut text = format!("{path}  {}", output::escape_line(kind));
    let fields = value.as_object().into_iter().flatten();
    for (name, field) in fields.filter(|(name, field)| {
        !matches!(name.as_str(), "seq" | "at_ms" | "path" | "event") && !field.is_null()
    }) {
        text.push_str(&format!("  {}={}", output::escape_line(name), output::json(field)));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_time_path_kind_and_fields() {
        let value = json!({"seq": 3, "at_ms": 1_763_692_415_332_u64, "path": "o/a", "event": "exited", "incarnation": 2,
            "reason": "panicked: x", "in_progress": null});
        let event: Event = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(
            line(&event, &value),
            "2025-11-21T02:33:35.332Z  o/a  exited  incarnation=2  reason=\"panicked: x\""
        );
        let value = json!({"seq": 3, "at_ms": 1_763_692_415_332_u64, "path": "o/\u{202e}a\n", "event": "exited", "incarnation": 2,
            "reason": "\u{1b}[2J\u{9b}\n", "in_progress": null});
        let event: Event = serde_json::from_value(value.clone()).unwrap();
        assert!(!line(&event, &value).contains(orchestrator_text::is_escaped), "{}", line(&event, &value));
    }
}
