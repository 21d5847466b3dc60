//! How a result is printed.

use clap::Args;
use serde::Serialize;

/// For people or for programs.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Form {
    /// Print the endpoint's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Form {
    /// JSON with a line end.
    pub(crate) fn print(self, answer: &impl Serialize) -> String {
        // Values that came as JSON go back to JSON.
        let mut text = serde_json::to_string_pretty(answer).unwrap_or_default();
        text.push('\n');
        text
    }
}
