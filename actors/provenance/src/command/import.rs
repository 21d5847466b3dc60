//! `orchestrator provenance import`: lines of JSON, sent in pieces that the endpoint takes, each confirmed before the next.
//!
//! A line that cannot be stored is named and left out; all others are stored. Where the import stands is noted beside the
//! file after each piece, for `--resume`.

mod piece;

use std::{
    fs::File,
    io::{BufRead, BufReader, IsTerminal, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use orchestrator_subsystem::{
    CommandError, Context, Form,
    wire::{BODY_LIMIT, ErrorBody, ErrorKind},
};
use orchestrator_supervise::sanitize;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::piece::{Bad, Piece};
use super::storage::{Storage, SwhConfig, Wishes};

/// Bytes of lines in one piece; the body is a little longer.
const PIECE_BYTES: usize = BODY_LIMIT - 8_192;
/// Longest line, bytes: a path of 2,704 bytes in hex digits fits easily.
const LINE_MAX: usize = 32_768;
/// Between two looks at the progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// Bad lines that are named; the rest is counted.
const NAMED_MAX: u64 = 20;

/// What is imported and how.
#[derive(Debug, Clone, Args)]
pub struct ImportArguments {
    /// A file of lines, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Go on where an import of this file was cut short
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    wishes: Wishes,
    #[command(flatten)]
    swh: SwhConfig,
    #[command(flatten)]
    form: Form,
}

/// Where an import stands: everything before is done with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// Bytes of the file.
    offset: u64,
    /// Lines of the file.
    line: u64,
}

struct Import<'a> {
    arguments: &'a ImportArguments,
    storage: &'a Storage<'a>,
    input: Box<dyn BufRead>,
    begun: Instant,
    shown: Instant,
    first: Place,
    size: Option<u64>,
    place: Place,
    stored: u64,
    bad: u64,
}

/// Imports and prints a summary.
pub(crate) async fn run(arguments: &ImportArguments, context: &mut Context<'_>) -> Result<(), CommandError> {
    let storage = Storage::open(context.instance, &arguments.swh, &arguments.wishes).await?;
    let imported = all(arguments, &storage, context.out).await;
    storage.close().await;
    imported
}

async fn all(
    arguments: &ImportArguments,
    storage: &Storage<'_>,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let mut import = Import::open(arguments, storage)?;
    while let Some(piece) = import.read()? {
        import.send(piece).await?;
        import.note()?;
        import.progress(false);
    }
    import.progress(true);
    import.summary(out)
}

/// Where the place in `file` is noted.
fn note_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".import-place");
    name.into()
}

fn usage(file: &Path, error: impl std::fmt::Display) -> CommandError {
    CommandError::Usage(format!("cannot read {}: {error}", file.display()))
}

impl<'a> Import<'a> {
    fn open(arguments: &'a ImportArguments, storage: &'a Storage<'a>) -> Result<Self, CommandError> {
        let file = &arguments.file;
        let (mut place, mut size) = (Place::default(), None);
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
                && let Ok(text) = std::fs::read_to_string(note_of(file))
            {
                place = serde_json::from_str(&text).map_err(|error| usage(&note_of(file), error))?;
                if place.offset > length {
                    let text = format!(
                        "it is shorter than what was imported of it: remove {}",
                        note_of(file).display()
                    );
                    return Err(usage(file, text));
                }
            }
            opened.seek(SeekFrom::Start(place.offset)).map_err(|error| usage(file, error))?;
            Box::new(BufReader::with_capacity(1 << 20, opened))
        };
        let now = Instant::now();
        Ok(Self {
            arguments,
            storage,
            input,
            begun: now,
            shown: now,
            first: place,
            size,
            place,
            stored: 0,
            bad: 0,
        })
    }

    /// The next piece; None at the end.
    fn read(&mut self) -> Result<Option<Piece>, CommandError> {
        let (mut piece, mut bytes, from) = (Piece::default(), 0, self.place.line);
        let mut line = Vec::new();
        while bytes + LINE_MAX / 4 < PIECE_BYTES {
            line.clear();
            let limited = &mut std::io::Read::take(&mut self.input, LINE_MAX as u64 + 1);
            let length =
                limited.read_until(b'\n', &mut line).map_err(|error| usage(&self.arguments.file, error))?;
            if length == 0 {
                break;
            }
            if length > LINE_MAX {
                let text = format!("line {} is longer than {LINE_MAX} bytes", self.place.line + 1);
                return Err(usage(&self.arguments.file, text));
            }
            self.place = Place { offset: self.place.offset + length as u64, line: self.place.line + 1 };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(row) => {
                    bytes += length;
                    piece.rows.push(row);
                    piece.lines.push(self.place.line);
                }
                Err(error) => self.complain(Some(self.place.line), &error.to_string()),
            }
        }
        Ok((self.place.line > from).then_some(piece))
    }

    async fn send(&mut self, piece: Piece) -> Result<(), CommandError> {
        if piece.rows.is_empty() {
            return Ok(());
        }
        let (file, batch) = (self.arguments.file.display().to_string(), self.arguments.wishes.batch);
        let added = piece.confirm(self.storage, &file, batch, self.stored > 0).await?;
        self.stored += added.stored;
        for Bad { index, reason } in added.bad {
            self.complain(index.and_then(|index| piece.lines.get(index).copied()), &reason);
        }
        Ok(())
    }

    fn complain(&mut self, line: Option<u64>, reason: &str) {
        self.bad += 1;
        if self.bad <= NAMED_MAX {
            let place = line.map_or_else(|| "a row".to_owned(), |line| format!("line {line}"));
            // Without standard error, the summary has to do.
            let file = sanitize(self.arguments.file.as_os_str().as_encoded_bytes());
            let _ = writeln!(std::io::stderr(), "{file}: {place}: {}", sanitize(reason));
        }
    }

    /// Notes where the import stands; removed when it is done.
    fn note(&self) -> Result<(), CommandError> {
        if self.size.is_none() {
            return Ok(());
        }
        let text = serde_json::to_string(&self.place).unwrap_or_default();
        Ok(std::fs::write(note_of(&self.arguments.file), text)?)
    }

    /// One line on a terminal, over and over.
    fn progress(&mut self, last: bool) {
        let mut screen = std::io::stderr();
        if !screen.is_terminal() || (!last && self.shown.elapsed() < PROGRESS_EVERY) {
            return;
        }
        self.shown = Instant::now();
        let seconds = self.begun.elapsed().as_secs_f64().max(0.001);
        let mut text = format!("{} rows, {:.0} rows/s", self.stored, self.stored as f64 / seconds);
        if let Some(size) = self.size.filter(|size| *size > 0) {
            let done = (self.place.offset - self.first.offset) as f64;
            let left = (size - self.place.offset.min(size)) as f64 / (done / seconds).max(1.0);
            text += &format!(", {:.0} %, {left:.0} s left", 100.0 * self.place.offset as f64 / size as f64);
        }
        let _ = write!(screen, "\r{text:<70}{}", if last { "\n" } else { "" });
    }

    fn summary(&self, out: &mut dyn Write) -> Result<(), CommandError> {
        if self.size.is_some() {
            // There is none where there was nothing to import.
            let _ = std::fs::remove_file(note_of(&self.arguments.file));
        }
        let lines = self.place.line - self.first.line;
        let seconds = self.begun.elapsed().as_secs_f64();
        if self.arguments.form.json || !std::io::stdout().is_terminal() {
            let answer =
                json!({ "lines": lines, "stored": self.stored, "bad": self.bad, "seconds": seconds });
            out.write_all(self.arguments.form.print(&answer).as_bytes())?;
        } else {
            writeln!(out, "{} rows of {lines} lines stored in {seconds:.1} s", self.stored)?;
        }
        out.flush()?;
        match self.bad {
            0 => Ok(()),
            n => Err(CommandError::Answered(ErrorBody {
                error: ErrorKind::BadRequest,
                message: format!("{n} rows were not stored: mend them and import them again"),
            })),
        }
    }
}
