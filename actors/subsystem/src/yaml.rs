//! YAML configuration files of the replaced programs.

use serde::de::DeserializeOwned;

/// Parses `text` as YAML.
///
/// # Errors
/// The text is not YAML or does not fit `T`. The error has the reason and the position, but no lines of the file: they may hold a
/// password.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str(text).map_err(|error| {
        let message = error.to_string();
        without_values(message.lines().next().unwrap_or_default().trim_start_matches("error: "))
    })
}

/// Removes the values that a parser's error message quotes: `invalid type: string "..", expected u32`.
pub fn without_values(message: &str) -> String {
    let quoted = message.find("string \"").zip(message.rfind('"'));
    let message = quoted.map_or_else(
        || message.to_owned(),
        |(begin, end)| format!("{}string{}", &message[..begin], &message[end + 1..]),
    );
    crate::redaction::redact(&message)
}
