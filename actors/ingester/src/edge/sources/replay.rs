//! Replay of files: dumps as they are, raw captures through the recogniser of their protocol. The
//! stream's reader thread reads ahead.

mod reader;

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use futures_util::stream::{StreamExt, unfold};
use orchestrator_ingester_protocols::{
    Outcome, Recognise,
    cbors::{Entry, Event},
};
use orchestrator_observe::LinkReporter;
use orchestrator_text::sanitize_to;

use crate::{
    edge::sources::{
        outcome_counter::OutcomeCounter,
        pace::{Pace, Pacer},
        recognisers::{MakeRecogniser, all_recognisers},
        replay::reader::{Entries, FileReader},
    },
    item::{Item, Parts},
    source::{Items, Source, SourceCx, SourceError, SourceFactory, SourceOptions},
};

/// Bytes shown of a stream's name.
const NAME_SHOWN: usize = 64;

/// A file that is replayed from its start in each run.
#[derive(Debug)]
struct ReplaySource {
    file: PathBuf,
    pace: Pace,
    recogniser: Option<MakeRecogniser>,
    file_reader: FileReader,
}

/// Factory of sources that replay the file of `options`. `recogniser` is for raw captures; without
/// one the protocol is detected by the message that starts the series.
///
/// # Errors
/// The pace is invalid; the text says what to write.
pub(super) fn factory(
    options: &SourceOptions,
    recogniser: Option<MakeRecogniser>,
) -> Result<SourceFactory, SourceError> {
    let (file, pace) = (PathBuf::from(options.file.as_deref().unwrap_or_default()), options.pace.as_deref());
    let pace = Pace::parse(pace)?;
    let (file_reader, reader_child) = reader::reader_child();
    let make = move |_: &SourceOptions| {
        let source = ReplaySource { file: file.clone(), pace, recogniser, file_reader: file_reader.clone() };
        Ok(Box::new(source) as Box<dyn Source>)
    };
    Ok(SourceFactory { make: Arc::new(make), reader_child: Some(reader_child) })
}

impl Source for ReplaySource {
    fn run(&mut self, cx: SourceCx) -> Items {
        let candidates = match self.recogniser {
            Some(recogniser) => vec![recogniser()],
            None => all_recognisers(),
        };
        let run = ReplayRun {
            file: self.file.clone(),
            file_reader: self.file_reader.clone(),
            entries: None,
            link: cx.link.clone(),
            pacer: Pacer::new(self.pace),
            candidates,
            items: VecDeque::new(),
            other_streams: Vec::new(),
            played: false,
            outcome_counter: OutcomeCounter::new(cx),
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

struct ReplayRun {
    file: PathBuf,
    file_reader: FileReader,
    entries: Option<Entries>,
    link: LinkReporter,
    pacer: Pacer,
    /// A single one once the protocol is known.
    candidates: Vec<Box<dyn Recognise>>,
    items: VecDeque<Item>,
    /// Streams of the dump, if the configured one is not among them.
    other_streams: Vec<String>,
    played: bool,
    outcome_counter: OutcomeCounter,
}

impl ReplayRun {
    async fn next(&mut self) -> Result<Option<Item>, String> {
        loop {
            if let Some(item) = self.items.pop_front() {
                self.pacer.wait_rate().await;
                self.played = true;
                return Ok(Some(item));
            }
            let entries = match &mut self.entries {
                Some(entries) => entries,
                None => self.entries.insert(self.file_reader.begin(&self.file)?),
            };
            let entry = entries.next().await;
            if matches!(entry, Some(Ok(_))) {
                self.link.up();
            }
            match entry {
                Some(Ok(Entry::Event(event))) => self.take_event(event).await?,
                Some(Ok(Entry::Message(message))) => {
                    if self.pacer.is_recorded() {
                        return Err(
                            "a raw capture has no times: give a rate such as pace = \"1000/s\"".to_owned()
                        );
                    }
                    self.take_message(message);
                }
                Some(Err(error)) => return Err(error.to_string()),
                None if self.played => return Ok(None),
                None => return Err(self.no_items_reason()),
            }
        }
    }

    async fn take_event(&mut self, event: Event) -> Result<(), String> {
        let Some(at) = event.streams.iter().position(|stream| stream.name == self.outcome_counter.stream())
        else {
            let names = event.streams.iter().map(|stream| sanitize_to(&stream.name, NAME_SHOWN));
            self.other_streams.extend(names.take(16_usize.saturating_sub(self.other_streams.len())));
            return Ok(());
        };
        if self.pacer.is_recorded() {
            let time = event
                .created_at
                .ok_or("a dump of this age has no times: give a rate such as pace = \"1000/s\"")?;
            self.pacer.wait_recorded(time).await;
        }
        let mut streams = event.streams;
        let stream = streams.swap_remove(at);
        self.items.push_back(Item { typ: stream.typ.into(), frames: stream.frames, number: None });
        Ok(())
    }

    fn take_message(&mut self, message: Parts) {
        let mut outcome = Outcome::Outside;
        for at in 0..self.candidates.len() {
            outcome = self.candidates[at].feed(message.clone(), &mut self.items);
            if !self.items.is_empty() && self.candidates.len() > 1 {
                self.candidates = vec![self.candidates.swap_remove(at)];
                break;
            }
        }
        // While the protocol is unknown, most candidates find a valid message invalid.
        if self.candidates.len() == 1 {
            self.outcome_counter.count(outcome);
        } else {
            self.outcome_counter.outside(1);
        }
    }

    fn no_items_reason(&self) -> String {
        let mut other_streams = self.other_streams.clone();
        other_streams.sort();
        other_streams.dedup();
        match other_streams.is_empty() {
            true => "it has no series: give a dump, or a raw capture with a message that starts a series"
                .to_owned(),
            false => {
                format!(
                    "it has no stream `{}`: name the stream like one of {other_streams:?}",
                    self.outcome_counter.stream()
                )
            }
        }
    }
}

/// The link is not up between runs.
impl Drop for ReplayRun {
    fn drop(&mut self) {
        self.link.connecting(0);
    }
}
