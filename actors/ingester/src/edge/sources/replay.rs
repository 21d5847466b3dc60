//! Plays files: dumps as they are, raw captures through the recogniser of their protocol. The stream's companion, a thread, reads
//! ahead a little.

mod reader;

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use futures_util::stream::{StreamExt, unfold};
use orchestrator_supervise::{LinkReporter, sanitize_to};
use tokio::time::{Duration, Instant, sleep_until};

use crate::{
    edge::sources::{
        recognisers::{MakeRecogniser, all_recognisers},
        replay::reader::{Entries, Reading},
        tally::Tally,
    },
    item::{Item, Parts},
    protocol::{
        Recognise, Verdict,
        cbors::{Entry, Event},
    },
    source::{Items, Place, Source, SourceCx, SourceError, Supply},
};

/// Bytes that are shown of the name of a dump's stream.
const NAME_SHOWN: usize = 64;

/// How fast a file is played.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pace {
    /// As fast as it is taken.
    Full,
    /// As it was recorded.
    Recorded,
    /// Time between two items.
    Every(Duration),
}

impl Pace {
    fn parse(text: Option<&str>) -> Result<Self, SourceError> {
        let rate = |text: &str| {
            text.strip_suffix("/s")?.trim().parse().ok().filter(|rate| (1e-3..=1e9).contains(rate))
        };
        match text {
            None => Ok(Self::Full),
            Some("recorded") => Ok(Self::Recorded),
            Some(text) => match rate(text) {
                Some(rate) => Ok(Self::Every(Duration::from_secs_f64(1.0 / rate))),
                None => Err(SourceError(format!(
                    "pace = {text}: write recorded, or a rate such as 1000/s, or leave it out for full speed"
                ))),
            },
        }
    }
}

/// A file that is played from its start in each run.
#[derive(Debug)]
struct ReplaySource {
    file: PathBuf,
    pace: Pace,
    recogniser: Option<MakeRecogniser>,
    reading: Reading,
}

/// Plays the file of `place`. `recogniser` is for raw captures; without one the protocol is told by the message that starts the series.
///
/// # Errors
/// The pace is none; the text says what to write.
pub(super) fn supply(place: &Place, recogniser: Option<MakeRecogniser>) -> Result<Supply, SourceError> {
    let (file, pace) = (PathBuf::from(place.file.as_deref().unwrap_or_default()), place.pace.as_deref());
    let pace = Pace::parse(pace)?;
    let (reading, companion) = reader::companion();
    let make = move |_: &Place| {
        let source = ReplaySource { file: file.clone(), pace, recogniser, reading: reading.clone() };
        Ok(Box::new(source) as Box<dyn Source>)
    };
    Ok(Supply { make: Arc::new(make), companion: Some(companion) })
}

impl Source for ReplaySource {
    fn run(&mut self, cx: SourceCx) -> Items {
        let candidates = match self.recogniser {
            Some(recogniser) => vec![recogniser()],
            None => all_recognisers(),
        };
        let run = Run {
            file: self.file.clone(),
            reading: self.reading.clone(),
            entries: None,
            link: cx.link.clone(),
            clock: Clock { pace: self.pace, first: None, count: 0 },
            candidates,
            items: VecDeque::new(),
            seen: Vec::new(),
            played: false,
            tally: Tally::new(cx),
        };
        unfold(Some(run), |run| async move {
            let mut run = run?;
            match run.next().await {
                Ok(Some(item)) => Some((Ok(item), Some(run))),
                Ok(None) => None,
                Err(reason) => {
                    let text = format!("file = {}: {reason}", run.file.display());
                    Some((Err(SourceError(text)), None))
                }
            }
        })
        .boxed_local()
    }
}

struct Run {
    file: PathBuf,
    reading: Reading,
    entries: Option<Entries>,
    link: LinkReporter,
    clock: Clock,
    /// One as soon as the protocol is known.
    candidates: Vec<Box<dyn Recognise>>,
    items: VecDeque<Item>,
    /// Streams of the dump, where ours was not among them.
    seen: Vec<String>,
    played: bool,
    tally: Tally,
}

impl Run {
    async fn next(&mut self) -> Result<Option<Item>, String> {
        loop {
            if let Some(item) = self.items.pop_front() {
                self.clock.wait_rate().await;
                self.played = true;
                return Ok(Some(item));
            }
            let entries = match &mut self.entries {
                Some(entries) => entries,
                None => self.entries.insert(self.reading.begin(&self.file)?),
            };
            let entry = entries.next().await;
            if matches!(entry, Some(Ok(_))) {
                self.link.up();
            }
            match entry {
                Some(Ok(Entry::Event(event))) => self.take_event(event).await?,
                Some(Ok(Entry::Message(message))) => {
                    if self.clock.pace == Pace::Recorded {
                        return Err(
                            "a raw capture has no times: give a rate such as pace = \"1000/s\"".to_owned()
                        );
                    }
                    self.take_message(message);
                }
                Some(Err(error)) => return Err(error.to_string()),
                None if self.played => return Ok(None),
                None => return Err(self.nothing()),
            }
        }
    }

    async fn take_event(&mut self, event: Event) -> Result<(), String> {
        let Some(at) = event.streams.iter().position(|stream| stream.name == self.tally.stream()) else {
            let names = event.streams.iter().map(|stream| sanitize_to(&stream.name, NAME_SHOWN));
            self.seen.extend(names.take(16_usize.saturating_sub(self.seen.len())));
            return Ok(());
        };
        if self.clock.pace == Pace::Recorded {
            let time = event
                .created_at
                .ok_or("a dump of this age has no times: give a rate such as pace = \"1000/s\"")?;
            self.clock.wait_recorded(time).await;
        }
        let mut streams = event.streams;
        let stream = streams.swap_remove(at);
        self.items.push_back(Item { typ: stream.typ.into(), frames: stream.frames, number: None });
        Ok(())
    }

    fn take_message(&mut self, message: Parts) {
        let mut verdict = Verdict::Outside;
        for at in 0..self.candidates.len() {
            verdict = self.candidates[at].feed(message.clone(), &mut self.items);
            if !self.items.is_empty() && self.candidates.len() > 1 {
                self.candidates = vec![self.candidates.swap_remove(at)];
                break;
            }
        }
        // Until the protocol is known, what is invalid in one is so in most.
        if self.candidates.len() == 1 {
            self.tally.count(verdict);
        } else {
            self.tally.outside(1);
        }
    }

    fn nothing(&self) -> String {
        let mut seen = self.seen.clone();
        seen.sort();
        seen.dedup();
        match seen.is_empty() {
            true => "it holds no series: give a dump, or a raw capture that has a message that starts one"
                .to_owned(),
            false => {
                format!("it holds no stream `{}`: name the stream like one of {seen:?}", self.tally.stream())
            }
        }
    }
}

/// The file is closed with the run.
impl Drop for Run {
    fn drop(&mut self) {
        self.link.connecting(0);
    }
}

/// When the next item is due.
struct Clock {
    pace: Pace,
    /// When the first one was, here and in the file.
    first: Option<(Instant, jiff::Timestamp)>,
    count: u32,
}

impl Clock {
    /// Items at a rate are due at multiples from the first one, so that no delay adds up.
    async fn wait_rate(&mut self) {
        if let Pace::Every(between) = self.pace {
            let (first, _) = *self.first.get_or_insert_with(|| (Instant::now(), jiff::Timestamp::UNIX_EPOCH));
            sleep_until(first + between.saturating_mul(self.count)).await;
            self.count = self.count.saturating_add(1);
        }
    }

    async fn wait_recorded(&mut self, time: jiff::Timestamp) {
        let (first, recorded) = *self.first.get_or_insert_with(|| (Instant::now(), time));
        // Events of a clock that was set back come at once.
        let after = Duration::try_from(time.duration_since(recorded)).unwrap_or_default();
        sleep_until(first + after).await;
    }
}
