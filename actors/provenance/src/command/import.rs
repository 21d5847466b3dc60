//! Command `orchestrator provenance import`: sends lines of JSON in chunks, each confirmed before
//! the next.
//!
//! A line that cannot be stored is reported and left out; all others are stored. The position is
//! saved beside the file after each chunk, for `--resume`.

mod chunk;
mod position;

use std::{
    fs::File,
    io::{BufRead, BufReader, IsTerminal, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use orchestrator_edge::read_text;
use orchestrator_subsystem::{
    CommandError, Context, OutputFormat,
    wire::{BODY_LIMIT, ErrorBody, ErrorKind},
};
use orchestrator_text::sanitize;
use serde_json::json;

use self::{chunk::Chunk, position::Position};
use super::backend::{Backend, ClientOptions, SwhConfig};
use crate::messages::Refusal;

/// Maximum size of the lines in a chunk, in bytes; the request's body is slightly longer.
const CHUNK_BYTES: usize = BODY_LIMIT - 8_192;
/// Maximum length of a line in bytes; a path of 2,704 bytes in hex digits fits.
const LINE_MAX: usize = 32_768;
/// Interval between two updates of the progress line.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// Maximum number of bad lines reported by themselves; the others are counted.
const REPORTED_MAX: u64 = 20;

/// Arguments of `import`.
#[derive(Debug, Clone, Args)]
pub struct ImportArguments {
    /// File of lines, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Resume an interrupted import of this file
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    client_options: ClientOptions,
    #[command(flatten)]
    swh: SwhConfig,
    #[command(flatten)]
    format: OutputFormat,
}

struct Import<'a> {
    arguments: &'a ImportArguments,
    backend: &'a Backend<'a>,
    input: Box<dyn BufRead>,
    /// Line that was read last.
    line: Vec<u8>,
    /// True if that line did not fit into the chunk.
    is_line_left: bool,
    started: Instant,
    shown: Instant,
    first: Position,
    size: Option<u64>,
    position: Position,
    stored: u64,
    bad: u64,
}

/// Imports and prints a summary.
pub(crate) async fn run(arguments: &ImportArguments, context: &mut Context<'_>) -> Result<(), CommandError> {
    let backend = Backend::open(context.instance, &arguments.swh, &arguments.client_options).await?;
    let result = import_chunks(arguments, &backend, context.out).await;
    backend.close().await;
    result
}

async fn import_chunks(
    arguments: &ImportArguments,
    backend: &Backend<'_>,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let mut import = Import::open(arguments, backend)?;
    while let Some(chunk) = import.read()? {
        import.send(chunk).await?;
        import.save_position()?;
        import.progress(false);
    }
    import.progress(true);
    import.summary(out)
}

fn usage(file: &Path, error: impl std::fmt::Display) -> CommandError {
    CommandError::Usage(format!("cannot read {}: {error}", file.display()))
}

impl<'a> Import<'a> {
    fn open(arguments: &'a ImportArguments, backend: &'a Backend<'a>) -> Result<Self, CommandError> {
        let file = &arguments.file;
        let (mut position, mut size) = (Position::default(), None);
        let input: Box<dyn BufRead> = if file.as_os_str() == "-" {
            if arguments.resume {
                return Err(CommandError::Usage("standard input cannot be resumed: name a file".to_owned()));
            }
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            let mut opened = File::open(file).map_err(|error| usage(file, error))?;
            let length = opened.metadata().map_err(|error| usage(file, error))?.len();
            size = Some(length);
            if arguments.resume
                && let Ok(text) = read_text(&position::path(file))
            {
                position =
                    serde_json::from_str(&text).map_err(|error| usage(&position::path(file), error))?;
                if position.offset > length {
                    let text = format!(
                        "it is shorter than its imported part: remove {}",
                        position::path(file).display()
                    );
                    return Err(usage(file, text));
                }
            }
            opened.seek(SeekFrom::Start(position.offset)).map_err(|error| usage(file, error))?;
            Box::new(BufReader::with_capacity(1 << 20, opened))
        };
        let now = Instant::now();
        Ok(Self {
            arguments,
            backend,
            input,
            line: Vec::new(),
            is_line_left: false,
            started: now,
            shown: now,
            first: position,
            size,
            position,
            stored: 0,
            bad: 0,
        })
    }

    /// Reads the next chunk; None at the end of the file.
    fn read(&mut self) -> Result<Option<Chunk>, CommandError> {
        let (mut chunk, mut bytes, from) = (Chunk::default(), 0, self.position.line);
        while self.next_line()? {
            if bytes + self.line.len() > CHUNK_BYTES {
                self.is_line_left = true;
                break;
            }
            let length = self.line.len();
            self.position =
                Position { offset: self.position.offset + length as u64, line: self.position.line + 1 };
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(&self.line) {
                Ok(row) => {
                    bytes += length;
                    chunk.rows.push(row);
                    chunk.lines.push(self.position.line);
                }
                Err(error) => self.report_bad_row(Some(self.position.line), &error.to_string()),
            }
        }
        Ok((self.position.line > from).then_some(chunk))
    }

    /// Reads the next line, unless one is left; returns false at the end of the file.
    fn next_line(&mut self) -> Result<bool, CommandError> {
        if std::mem::take(&mut self.is_line_left) {
            return Ok(true);
        }
        self.line.clear();
        let limited = &mut std::io::Read::take(&mut self.input, LINE_MAX as u64 + 1);
        let length =
            limited.read_until(b'\n', &mut self.line).map_err(|error| usage(&self.arguments.file, error))?;
        if length > LINE_MAX {
            let text = format!("line {} is longer than {LINE_MAX} bytes", self.position.line + 1);
            return Err(usage(&self.arguments.file, text));
        }
        Ok(length > 0)
    }

    async fn send(&mut self, chunk: Chunk) -> Result<(), CommandError> {
        if chunk.rows.is_empty() {
            return Ok(());
        }
        let (file, batch) = (self.arguments.file.display().to_string(), self.arguments.client_options.batch);
        let added = chunk.send_until_confirmed(self.backend, &file, batch, self.stored > 0).await?;
        self.stored += added.stored;
        for Refusal { index, reason } in added.bad {
            self.report_bad_row(chunk.lines.get(index as usize).copied(), &reason);
        }
        Ok(())
    }

    fn report_bad_row(&mut self, line: Option<u64>, reason: &str) {
        self.bad += 1;
        if self.bad <= REPORTED_MAX {
            let position = line.map_or_else(|| "a row".to_owned(), |line| format!("line {line}"));
            // Without standard error, only the summary reports them.
            let file = sanitize(self.arguments.file.as_os_str().as_encoded_bytes());
            let _ = writeln!(std::io::stderr(), "{file}: {position}: {}", sanitize(reason));
        }
    }

    /// Saves the position; the summary removes it.
    fn save_position(&self) -> Result<(), CommandError> {
        if self.size.is_none() {
            return Ok(());
        }
        Ok(self.position.save(&self.arguments.file)?)
    }

    /// Updates the progress line on a terminal.
    fn progress(&mut self, last: bool) {
        let mut screen = std::io::stderr();
        if !screen.is_terminal() || (!last && self.shown.elapsed() < PROGRESS_EVERY) {
            return;
        }
        self.shown = Instant::now();
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let mut text = format!("{} rows, {:.0} rows/s", self.stored, self.stored as f64 / seconds);
        if let Some(size) = self.size.filter(|size| *size > 0) {
            let done = (self.position.offset - self.first.offset) as f64;
            let left = (size - self.position.offset.min(size)) as f64 / (done / seconds).max(1.0);
            text +=
                &format!(", {:.0} %, {left:.0} s left", 100.0 * self.position.offset as f64 / size as f64);
        }
        let _ = write!(screen, "\r{text:<70}{}", if last { "\n" } else { "" });
    }

    fn summary(&self, out: &mut dyn Write) -> Result<(), CommandError> {
        if self.size.is_some() {
            // The file does not exist if nothing was imported.
            let _ = std::fs::remove_file(position::path(&self.arguments.file));
        }
        let lines = self.position.line - self.first.line;
        let seconds = self.started.elapsed().as_secs_f64();
        if self.arguments.format.json || !std::io::stdout().is_terminal() {
            let answer =
                json!({ "lines": lines, "stored": self.stored, "bad": self.bad, "seconds": seconds });
            out.write_all(self.arguments.format.print(&answer).as_bytes())?;
        } else {
            writeln!(out, "{} rows of {lines} lines stored in {seconds:.1} s", self.stored)?;
        }
        out.flush()?;
        match self.bad {
            0 => Ok(()),
            n => Err(CommandError::ErrorResponse(ErrorBody {
                error: ErrorKind::BadRequest,
                message: format!("{n} rows were not stored: correct them and import them again"),
            })),
        }
    }
}
