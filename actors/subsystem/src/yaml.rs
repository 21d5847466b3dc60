//! YAML configuration files of the programs that are replaced.

use serde::de::DeserializeOwned;

/// Reads a YAML text.
///
/// # Errors
/// It is none, or lacks something. The text says what is wrong and where: the parser would show the lines around it, and they may
/// hold a password.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str(text).map_err(|error| {
        let told = error.to_string();
        without_values(told.lines().next().unwrap_or_default().trim_start_matches("error: "))
    })
}

/// Text of a parser without the values that it quotes: `invalid type: string "..", expected u32`.
pub fn without_values(told: &str) -> String {
    let quoted = told.find("string \"").zip(told.rfind('"'));
    let told = quoted.map_or_else(
        || told.to_owned(),
        |(begin, end)| format!("{}string{}", &told[..begin], &told[end + 1..]),
    );
    crate::redaction::scrubbed(&told)
}
