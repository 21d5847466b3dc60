//! `orchestrator ingester probe` and `play`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use orchestrator_ingester_zmtp::SocketType;
use orchestrator_subsystem::{
    CommandError, Context, OutputFormat,
    output::{escape_line, escape_strings},
};
use serde_json::{Value, json};

use crate::edge::{
    play::Play,
    probe::Probe,
    sources::{Address, Pace, ZmqProtocol},
};

/// Arguments of `probe`.
#[derive(Debug, Clone, Args)]
pub struct ProbeArguments {
    /// Protocol of the source: stins, eiger_legacy, eiger_v2, stins_parallel, eiger_legacy_parallel, pcap,
    /// albaem, xspress, contrast or lecroy
    #[arg(long)]
    source: String,
    /// Address of the source, e.g. tcp://detector:9999
    address: String,
    /// Time to read, seconds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Stop after this number of messages
    #[arg(long)]
    messages: Option<u64>,
    #[command(flatten)]
    format: OutputFormat,
}

/// Arguments of `play`.
#[derive(Debug, Clone, Args)]
pub struct PlayArguments {
    /// Dump (.cbors), or raw capture (ZeroMQ messages of a source, without times)
    file: PathBuf,
    /// Address of this machine to which receivers connect, e.g. tcp://0.0.0.0:9999
    #[arg(long, value_name = "ADDRESS")]
    to: String,
    /// Stream of a dump with several streams
    #[arg(long)]
    stream: Option<String>,
    /// Type of the socket; default: that of the source's protocol, push for a raw capture
    #[arg(long, value_enum)]
    socket: Option<PlaySocket>,
    /// Speed: full (as fast as possible), recorded (that of the dump), or a rate such as 1000/s
    #[arg(long, default_value = "full")]
    pace: String,
}

/// Socket of a played source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlaySocket {
    /// PUSH
    Push,
    /// PUB
    Pub,
}

impl ProbeArguments {
    pub(super) async fn run(&self, context: &mut Context<'_>) -> Result<(), CommandError> {
        let protocol = ZmqProtocol::named(&self.source).ok_or_else(|| {
            let known: Vec<_> = ZmqProtocol::short_names().collect();
            let known = known.join(", ");
            CommandError::Usage(format!(
                "--source {}: no protocol over ZeroMQ: use one of {known}",
                self.source
            ))
        })?;
        let address =
            Address::parse(&self.address).map_err(|error| CommandError::Usage(error.to_string()))?;
        let takes_away = protocol.socket == SocketType::Pull;
        let socket = protocol.socket.name();
        if !self.format.json {
            if takes_away {
                context.print(
                    "warning: the source pushes each message to one receiver: \
                     messages read here are missing in the ingester\n",
                )?;
            }
            context
                .print(&format!("{} at {address} ({socket}), {} s at most\n", self.source, self.seconds))?;
        }
        let probe = Probe {
            protocol,
            address,
            duration: Duration::from_secs(self.seconds),
            messages: self.messages.unwrap_or(u64::MAX),
        };
        let found = probe.run().await.map_err(CommandError::Local)?;
        let mut figures = found.figures();
        if self.format.json {
            figures["socket"] = json!(socket);
            figures["takes_frames_away"] = json!(takes_away);
            return context.print(&self.format.print(&figures));
        }
        context.print(&page(&escape_strings(figures)))
    }
}

/// Text of the figures.
fn page(figures: &Value) -> String {
    let number = |key: &str| match &figures[key] {
        Value::Number(number) if number.is_f64() => format!("{:.1}", number.as_f64().unwrap_or_default()),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let line = |name: &str, parts: &[(&str, &str)]| {
        let parts: Vec<_> = parts.iter().map(|(key, what)| format!("{} {what}", number(key))).collect();
        format!("{name:<9} {}\n", parts.join(", "))
    };
    let mut text = [
        line("messages", &[("messages", "in"), ("seconds", "s"), ("bytes", "bytes")]),
        line("rate", &[("messages_per_s", "messages/s"), ("bytes_per_s", "bytes/s")]),
        line(
            "sizes",
            &[("smallest_bytes", "to"), ("largest_bytes", "bytes"), ("mean_bytes", "bytes on average")],
        ),
        line("parts", &[("parts_min", "to"), ("parts_max", "a message")]),
        line(
            "items",
            &[
                ("items", "items"),
                ("unnumbered_items", "of them without a number"),
                ("outside_series", "messages outside a series"),
            ],
        ),
        line("faults", &[("invalid", "invalid"), ("ignored", "ignored"), ("reconnects", "connections lost")]),
        line(
            "gaps",
            &[
                ("gaps", "gaps"),
                ("missing_frames", "frames missing"),
                ("backward_frames", "frames repeated or late"),
            ],
        ),
    ]
    .concat()
    .replace(" in, ", " in ")
    .replace(" to, ", " to ");
    if let Some(reason) = figures["last_invalid"].as_str() {
        text.push_str(&format!("invalid   {reason}\n"));
    }
    let header = match &figures["header"] {
        Value::Null => "no message has arrived: does the source send?".to_owned(),
        Value::String(beginning) => format!("not JSON: {beginning}"),
        json => serde_json::to_string_pretty(json).unwrap_or_default(),
    };
    text.push_str(&format!("first header\n{header}\n"));
    text
}

impl PlayArguments {
    pub(super) async fn run(&self, context: &mut Context<'_>) -> Result<(), CommandError> {
        let usage = |text: String| CommandError::Usage(text);
        let listen =
            self.to.strip_prefix("tcp://").map(|at| at.trim_end_matches('/').replacen('*', "0.0.0.0", 1));
        let listen = listen.filter(|at| at.contains(':'));
        let listen =
            listen.ok_or_else(|| usage(format!("--to {}: write tcp://host:port", escape_line(&self.to))))?;
        let play = Play {
            file: self.file.clone(),
            listen,
            stream: self.stream.clone(),
            socket: self.socket.map(|socket| match socket {
                PlaySocket::Push => SocketType::Push,
                PlaySocket::Pub => SocketType::Pub,
            }),
            pace: Pace::parse(Some(&self.pace)).map_err(|error| usage(format!("--{error}")))?,
        };
        let mut begun = |at, socket: SocketType| {
            let text = format!("{} at tcp://{at}: waiting for a receiver\n", socket.name());
            context.print(&text)
        };
        let mut announced = Ok(());
        let played = {
            let announced = &mut announced;
            play.run(|at, socket| *announced = begun(at, socket)).await.map_err(CommandError::Local)?
        };
        announced?;
        context.print(&format!("{} messages, {} bytes\n", played.messages, played.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_every_figure() {
        let figures = json!({
            "messages": 10, "bytes": 1000, "seconds": 2.0, "messages_per_s": 4.5, "bytes_per_s": 500.0,
            "smallest_bytes": 4, "largest_bytes": 300, "mean_bytes": 100, "parts_min": 1, "parts_max": 2,
            "items": 8, "unnumbered_items": 2, "outside_series": 1, "ignored": 0, "invalid": 1,
            "last_invalid": "no JSON", "gaps": 2, "missing_frames": 5, "backward_frames": 1, "reconnects": 0,
            "header": {"frame": 1},
        });
        let expected = "\
messages  10 in 2.0 s, 1000 bytes
rate      4.5 messages/s, 500.0 bytes/s
sizes     4 to 300 bytes, 100 bytes on average
parts     1 to 2 a message
items     8 items, 2 of them without a number, 1 messages outside a series
faults    1 invalid, 0 ignored, 0 connections lost
gaps      2 gaps, 5 frames missing, 1 frames repeated or late
invalid   no JSON
first header
{
  \"frame\": 1
}
";
        assert_eq!(page(&figures), expected);
    }
}
