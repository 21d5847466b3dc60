//! Commands that print all rows of a listing, one JSON object a line.

use std::io::Write;

use orchestrator_subsystem::{CommandError, output, wire::ErrorBody};
use serde_json::Value;

use super::backend::Backend;

/// Longest line, in bytes. It bounds the memory if another program answers.
const LINE_MAX: usize = 64 << 20;

/// Prints the rows of the export `name`.
///
/// # Errors
/// [`CommandError::Incomplete`] if some rows were printed, but not all.
pub(super) async fn print(
    backend: &Backend<'_>,
    name: &str,
    args: &[(String, String)],
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let mut lines = Lines { out, partial: Vec::new(), printed: 0 };
    let ended = backend.export(name, args, &mut |piece| lines.take(piece)).await;
    let ended = ended.and_then(|()| match lines.partial.is_empty() {
        true => Ok(lines.out.flush()?),
        false => Err(CommandError::Local("the last line is not complete".to_owned())),
    });
    match ended {
        // A reader that has closed the pipe needs no more rows.
        Err(error) if lines.printed > 0 && !matches!(error, CommandError::Output(_)) => {
            let text = format!("only {} rows were printed: {error}", lines.printed);
            Err(CommandError::Incomplete { text, timed_out: false, source: Box::new(error) })
        }
        ended => ended,
    }
}

/// Lines that arrive in pieces of any size.
struct Lines<'a> {
    out: &'a mut dyn Write,
    /// Begin of the next line.
    partial: Vec<u8>,
    printed: u64,
}

impl Lines<'_> {
    /// Prints the complete lines. The server's text is parsed and printed again, so that the terminal
    /// receives no control characters.
    fn take(&mut self, mut piece: &[u8]) -> Result<(), CommandError> {
        let mut text = String::new();
        let mut printed = 0;
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(&piece[..end]);
            piece = &piece[end + 1..];
            let row: Value = serde_json::from_slice(&std::mem::take(&mut self.partial))
                .map_err(|error| CommandError::Local(format!("a line of the answer is invalid: {error}")))?;
            if row.get("error").is_some() {
                self.print(&text, printed)?;
                return Err(failure(row));
            }
            text += &output::json(&row);
            text.push('\n');
            printed += 1;
        }
        if piece.len() > LINE_MAX.saturating_sub(self.partial.len()) {
            return Err(CommandError::Local(format!("a line of the answer has more than {LINE_MAX} bytes")));
        }
        self.partial.extend_from_slice(piece);
        self.print(&text, printed)
    }

    fn print(&mut self, text: &str, rows: u64) -> Result<(), CommandError> {
        self.out.write_all(text.as_bytes())?;
        self.printed += rows;
        Ok(())
    }
}

/// Error of the line that ends incomplete rows.
fn failure(row: Value) -> CommandError {
    match serde_json::from_value::<ErrorBody>(row) {
        Ok(body) => {
            CommandError::ErrorResponse(ErrorBody { message: output::escape_line(&body.message), ..body })
        }
        Err(error) => CommandError::Local(format!("the answer ends with an invalid error: {error}")),
    }
}
