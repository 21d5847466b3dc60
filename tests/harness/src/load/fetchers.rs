//! Fake fetchers: each writes runs with ascending numbers, appends in pieces of random size, renames,
//! replaces and deletes files, as production does, and records the lines of its files.
//!
//! Not covered, because the contract makes no promise: a file written under its complete name while the queue
//! starts, new lines in a replaced complete file, and a growing file replaced by another.
//! Run numbers are never reused, so each line is due exactly once.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::SeededRng;

/// Attribute paths of one fetcher, and those that all fetchers list.
const OWN: usize = 400;
const SHARED: usize = 60;
/// Number of each fetcher's first file, which is never deleted, and its number of lines.
const FIRST_RUN: i64 = 100;
const STOCK: usize = 700;
/// Files of one fetcher at a time, besides the large one.
const FILES_MAX: usize = 4;
/// Lines of the large file, whose reading and deletion take long enough to be interrupted.
const LARGE: usize = 5_000;

/// Line of a fetcher file: fetcher, run, attribute path.
pub type Line = (String, i64, String);

/// Lines with the time when they were written.
pub type Lines = BTreeMap<Line, Instant>;

/// Fetchers, each in its own thread.
#[derive(Debug)]
pub struct Fetchers {
    threads: Vec<JoinHandle<(Lines, Lines)>>,
    stop: Arc<AtomicBool>,
}

impl Fetchers {
    /// Starts `count` fetchers, each on one of `directories` in turn; the first of them also writes and
    /// deletes large files.
    pub fn start(directories: &[PathBuf], count: usize, rng: &mut SeededRng) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count).map(|id| {
            let mut fetcher = Fetcher {
                directory: directories[id % directories.len()].clone(),
                name: format!("fetcher{id}"),
                next_run: FIRST_RUN,
                files: Vec::new(),
                large: None,
                has_large: id == 0,
                ever: Lines::new(),
                rng: rng.split(),
            };
            let stop = stop.clone();
            thread::spawn(move || {
                while !stop.load(SeqCst) {
                    fetcher.act();
                    // The pace of the load.
                    thread::sleep(Duration::from_millis(fetcher.rng.below(12) as u64));
                }
                fetcher.end()
            })
        });
        Self { threads: threads.collect(), stop }
    }

    /// Stops the fetchers. Returns the lines that the files hold now, and all lines ever written.
    ///
    /// # Panics
    /// If a fetcher panicked.
    pub fn stop(mut self) -> (Lines, Lines) {
        self.stop.store(true, SeqCst);
        let (mut present, mut ever) = (Lines::new(), Lines::new());
        for fetcher in std::mem::take(&mut self.threads) {
            let (now, all) = fetcher.join().expect("a fetcher that ends");
            present.extend(now);
            ever.extend(all);
        }
        (present, ever)
    }
}

impl Drop for Fetchers {
    fn drop(&mut self) {
        // A failed test removes the directory next.
        self.stop.store(true, SeqCst);
        self.threads.drain(..).for_each(|fetcher| drop(fetcher.join()));
    }
}

/// Parses fetcher and run from a payload.
pub(super) fn parse_payload(payload: &str) -> (String, i64) {
    let parsed = payload.split_once(' ').and_then(|(source, _)| {
        let (fetcher, run) = source.split_once('@')?;
        Some((fetcher.to_owned(), run.parse().ok()?))
    });
    parsed.unwrap_or_else(|| panic!("not a payload that was written: {payload:?}"))
}

struct OneFile {
    run: i64,
    /// While it grows.
    part: Option<File>,
    /// Text of a line whose end is not written yet.
    tail: Option<(String, String)>,
    /// It came whole: then it may be replaced.
    whole: bool,
    attrs: Vec<String>,
}

struct Fetcher {
    directory: PathBuf,
    name: String,
    next_run: i64,
    files: Vec<OneFile>,
    large: Option<i64>,
    has_large: bool,
    ever: Lines,
    rng: SeededRng,
}

impl Fetcher {
    fn act(&mut self) {
        if self.has_large && self.rng.chance(10) {
            return self.toggle_large();
        }
        if self.files.is_empty() || (self.files.len() < FILES_MAX && self.rng.chance(30)) {
            return self.begin();
        }
        let at = self.rng.below(self.files.len());
        match self.rng.below(100) {
            0..70 if self.files[at].part.is_some() => self.grow(at),
            70..90 if self.files[at].part.is_some() => self.complete(at),
            0..60 if self.files[at].whole => self.replace(at),
            90.. if self.files.len() == FILES_MAX && self.files[at].run != FIRST_RUN => self.delete(at),
            _ => {}
        }
    }

    fn path(&self, run: i64, suffix: &str) -> PathBuf {
        self.directory.join(format!("{}.{run}.txt{suffix}", self.name))
    }

    fn line(&self, run: i64, attr: &str, edition: &str) -> String {
        format!("{attr} {}@{run} {edition}\n", self.name)
    }

    fn attrs(&mut self) -> Vec<String> {
        let count = 10 + self.rng.below(110);
        let mut attrs: Vec<String> = (0..count)
            .map(|_| match self.rng.chance(20) {
                true => format!("shared{}", self.rng.below(SHARED)),
                false => format!("{}-attr{}", self.name, self.rng.below(OWN)),
            })
            .collect();
        attrs.sort();
        attrs.dedup();
        attrs
    }

    fn begin(&mut self) {
        let run = self.next_run;
        self.next_run += 1;
        let mut file = OneFile { run, part: None, tail: None, whole: self.rng.chance(40), attrs: Vec::new() };
        let first = run == FIRST_RUN;
        if file.whole || first {
            file.whole = true;
            file.attrs = self.attrs();
            let stock = (0..STOCK).filter(|_| first).map(|i| format!("{}-stock{i}", self.name));
            file.attrs.extend(stock);
            self.arrive(run, &file.attrs, "1");
        } else {
            file.part = Some(File::create(self.path(run, ".part")).expect("create a growing file"));
        }
        self.files.push(file);
    }

    /// Writes a complete file under a temporary name and renames it, replacing an older one.
    fn arrive(&mut self, run: i64, attrs: &[String], edition: &str) {
        let text: String = attrs.iter().map(|attr| self.line(run, attr, edition)).collect();
        let draft = self.directory.join(format!("draft-{}", self.name));
        fs::write(&draft, text).expect("write a draft");
        self.remember(run, attrs);
        fs::rename(draft, self.path(run, "")).expect("rename a draft");
    }

    fn remember(&mut self, run: i64, attrs: &[String]) {
        let now = Instant::now();
        for attr in attrs {
            self.ever.entry((self.name.clone(), run, attr.clone())).or_insert(now);
        }
    }

    /// Appends some lines, the last one perhaps without its end.
    fn grow(&mut self, at: usize) {
        let attrs = self.attrs();
        let run = self.files[at].run;
        let known = &self.files[at].attrs;
        let mut fresh: Vec<String> = attrs.into_iter().filter(|attr| !known.contains(attr)).collect();
        let mut text = String::new();
        let mut ended = Vec::new();
        if let Some((attr, rest)) = self.files[at].tail.take() {
            text.push_str(&rest);
            ended.push(attr);
        }
        fresh.retain(|attr| !ended.contains(attr));
        let cut = fresh.pop().filter(|_| self.rng.chance(50));
        for attr in fresh {
            text.push_str(&self.line(run, &attr, "1"));
            ended.push(attr);
        }
        if let Some(attr) = cut {
            let line = self.line(run, &attr, "1");
            let (now, later) = line.split_at(1 + self.rng.below(line.len() - 1));
            text.push_str(now);
            self.files[at].tail = Some((attr, later.to_owned()));
        }
        self.remember(run, &ended);
        let file = &mut self.files[at];
        file.attrs.extend(ended);
        file.part.as_mut().expect("it grows").write_all(text.as_bytes()).expect("append");
    }

    /// Renames a growing file to its complete name, which drops an unterminated last line.
    fn complete(&mut self, at: usize) {
        let file = &mut self.files[at];
        (file.part, file.tail) = (None, None);
        let run = file.run;
        fs::rename(self.path(run, ".part"), self.path(run, "")).expect("rename a growing file");
    }

    /// Replaces a file by one with the same lines and other payloads.
    fn replace(&mut self, at: usize) {
        let (run, attrs) = (self.files[at].run, self.files[at].attrs.clone());
        self.arrive(run, &attrs, "2");
    }

    fn delete(&mut self, at: usize) {
        let file = self.files.swap_remove(at);
        let suffix = if file.part.is_some() { ".part" } else { "" };
        fs::remove_file(self.path(file.run, suffix)).expect("delete a file");
    }

    fn toggle_large(&mut self) {
        if let Some(run) = self.large.take() {
            return fs::remove_file(self.path(run, "")).expect("delete the large file");
        }
        let run = self.next_run;
        self.next_run += 1;
        let attrs: Vec<String> = (0..LARGE).map(|i| format!("large{i}")).collect();
        self.arrive(run, &attrs, "1");
        self.large = Some(run);
    }

    fn end(mut self) -> (Lines, Lines) {
        if self.large.is_some() {
            self.toggle_large();
        }
        let mut present = Lines::new();
        for file in &self.files {
            for attr in &file.attrs {
                let line = (self.name.clone(), file.run, attr.clone());
                let written = self.ever[&line];
                present.insert(line, written);
            }
        }
        (present, self.ever)
    }
}
