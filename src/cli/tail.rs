//! `orchestrator tail`: what happens in the tree, as it happens. Over a lost connection it goes on where it was: events are
//! numbered, and the endpoint keeps the last few thousand.

use std::{collections::BTreeSet, io::Write, time::Duration};

use clap::Args;
use orchestrator_subsystem::{
    CommandError, output,
    wire::{Event, TreeSnapshot, tree_url},
};
use serde_json::Value;

use crate::cli::{
    client::Client,
    event_stream::{EventStream, ServerEvent},
};

/// Pause before the next try after a lost connection.
const RETRY: Duration = Duration::from_millis(500);

/// What to show.
#[derive(Debug, Clone, Args)]
pub(crate) struct TailArguments {
    /// Only this child and what is below it; the root's name may be left out
    path: Option<String>,
    /// Only events of these kinds, e.g. exited,commanded
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    kind: Vec<String>,
    /// How many of the past to show first
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N")]
    last: u64,
    /// End after what has happened so far
    #[arg(long)]
    no_follow: bool,
    /// Print events as JSON, one a line
    #[arg(long)]
    json: bool,
}

/// Where the reader stands.
struct Tail<'a> {
    arguments: &'a TailArguments,
    out: &'a mut dyn Write,
    /// Full path of the child that is looked at.
    path: String,
    kinds: BTreeSet<&'a str>,
    /// Number of the last event seen.
    seen: u64,
    /// The event to end after.
    until: Option<u64>,
}

/// Shows events until the reader goes away.
pub(crate) async fn run(
    arguments: &TailArguments,
    client: &Client,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let tree: TreeSnapshot = serde_json::from_value(client.get(&tree_url(arguments.path.as_deref())).await?)
        .map_err(|error| client.foreign(format!("this is no tree: {error}")))?;
    let mut tail = Tail {
        arguments,
        out,
        path: tree.root.path,
        kinds: arguments.kind.iter().map(String::as_str).collect(),
        seen: tree.seq.saturating_sub(arguments.last),
        until: arguments.no_follow.then_some(tree.seq),
    };
    let mut lost = false;
    while !tail.is_done() {
        let mut stream = EventStream::default();
        let route = format!("/v1/events?after={}", tail.seen);
        let ended = client
            .follow(&route, &mut |bytes| {
                let events =
                    stream.take(bytes).ok_or_else(|| client.foreign("a line without end".to_owned()))?;
                events.iter().try_for_each(|event| tail.show(event, client))?;
                Ok(!tail.is_done())
            })
            .await;
        match ended {
            Ok(()) if tail.is_done() => {}
            // The process restarts: the same words once, then silence until it is back.
            Ok(()) | Err(CommandError::Unreachable { .. }) if !arguments.no_follow => {
                if !std::mem::replace(&mut lost, true) {
                    tail.note("connection lost, waiting for it to come back")?;
                }
                tokio::time::sleep(RETRY).await;
                continue;
            }
            Ok(()) => return Err(client.foreign("it closed the stream of events".to_owned())),
            Err(error) => return Err(error),
        }
        lost = false;
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
            .map_err(|error| client.foreign(format!("this is no event: {error}")))?;
        let known: Option<Event> = serde_json::from_value(value.clone()).ok();
        let seq = value["seq"].as_u64().unwrap_or(self.seen);
        // A new process counts from its beginning.
        self.seen = seq;
        if self.is_wanted(&value) {
            match known {
                Some(event) if !self.arguments.json => writeln!(self.out, "{}", line(&event, &value))?,
                _ => writeln!(self.out, "{}", output::json(&value))?,
            }
            self.out.flush()?;
        }
        Ok(())
    }

    /// Events were missed: they left the ring before they were read, or another process answers now.
    fn resynchronise(&mut self, data: &str) -> Result<(), CommandError> {
        let value: Value = serde_json::from_str(data).unwrap_or_default();
        let oldest = value["oldest"].as_u64().unwrap_or(1);
        self.seen = oldest.saturating_sub(1);
        self.note("events are missing here: look at `orchestrator tree`")
    }

    /// Words that are no event.
    fn note(&mut self, words: &str) -> Result<(), CommandError> {
        if !self.arguments.json {
            writeln!(self.out, "-- {words} --")?;
            self.out.flush()?;
        }
        Ok(())
    }

    fn is_wanted(&self, event: &Value) -> bool {
        let path = event["path"].as_str().unwrap_or_default();
        let below = path.strip_prefix(self.path.as_str());
        let kind = event["event"].as_str().unwrap_or_default();
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            && (self.kinds.is_empty() || self.kinds.contains(kind))
    }
}

/// `2026-11-21T02:33:35.332Z  orchestrator/queue/fetcher_watcher  started  incarnation=2`
fn line(event: &Event, value: &Value) -> String {
    let at = i64::try_from(event.at_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let at = at.map_or_else(String::new, |at| format!("{at:.3}"));
    let (path, kind) = (output::one_line(&event.path), value["event"].as_str().unwrap_or("?"));
    let mut text = format!("{at}  {path}  {}", output::one_line(kind));
    let fields = value.as_object().into_iter().flatten();
    for (name, field) in fields.filter(|(name, field)| {
        !matches!(name.as_str(), "seq" | "at_ms" | "path" | "event") && !field.is_null()
    }) {
        text.push_str(&format!("  {}={}", output::one_line(name), output::json(field)));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_when_where_what_and_the_rest() {
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
        assert!(
            !line(&event, &value).contains(orchestrator_supervise::is_escaped),
            "{}",
            line(&event, &value)
        );
    }
}
