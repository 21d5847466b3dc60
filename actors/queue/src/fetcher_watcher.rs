//! The actor between the input directory's events and the file reader.
//!
//! It turns names into fetcher files, warns of odd ones, leaves out what says nothing new, and passes the rest on as
//! commands. It never waits: when the reader's inbox is full, what does not fit in becomes one rescan. Files and their
//! states are the reader's: nothing here opens or lists anything.

use std::collections::HashSet;

use orchestrator_supervise::{
    Answer, Child, ChildCx, Factory, Handle, MailboxSlot, Message, Outbox, StartCx, metrics,
};

use crate::{
    edge::files::RescanFlag,
    file_name::{FetcherFile, NameClass, WarnedNames, classify},
    messages::{Change, DirectoryEvent, DirectoryNotice, ReadCommand},
};

impl Message for DirectoryNotice {
    type Result = ();
}

metrics! {
    /// Metrics of the watcher.
    struct WatcherMetrics {
        /// Events of the input directory.
        events: counter("events") as "directory_events",
        /// Full looks at the input directory: at a start, after an overflow, when it was made anew.
        rescans: counter("rescans"),
        /// Files in the input directory whose names are no fetcher's.
        odd_names: counter("names"),
    }
}

/// Tells the file reader what to look at.
#[derive(Debug)]
pub struct FetcherWatcher {
    commands: Outbox<ReadCommand>,
    rescan: RescanFlag,
    warned: WarnedNames,
    metrics: WatcherMetrics,
}

impl Child for FetcherWatcher {}

impl Handle<DirectoryNotice> for FetcherWatcher {
    fn handle(&mut self, notice: DirectoryNotice, _cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        match notice {
            DirectoryNotice::Rescan => self.rescan(),
            DirectoryNotice::Changed(events) => self.changed(events),
        }
        Answer::done()
    }
}

impl FetcherWatcher {
    /// The child behind `slot`.
    pub fn factory(
        slot: MailboxSlot<Self>,
        commands: Outbox<ReadCommand>,
        rescan: RescanFlag,
        warned: WarnedNames,
    ) -> Factory {
        Factory::actor(slot, move |cx: &StartCx| {
            Ok(Self {
                commands: commands.clone(),
                rescan: rescan.clone(),
                warned: warned.clone(),
                metrics: WatcherMetrics::register(&cx.vitals),
            })
        })
    }

    fn changed(&mut self, events: Vec<DirectoryEvent>) {
        self.metrics.events.add(events.len() as u64);
        for (file, change) in self.commands_of(events) {
            if self.commands.tell(ReadCommand::Look { file, change }).is_err() {
                // What is lost here and later, until there is room again, the rescan finds.
                return self.rescan();
            }
        }
    }

    /// Files and changes in the order of their events. A write that follows a write of the same file says nothing new.
    fn commands_of(&mut self, events: Vec<DirectoryEvent>) -> Vec<(FetcherFile, Change)> {
        let mut commands = Vec::with_capacity(events.len());
        let mut written = HashSet::new();
        for DirectoryEvent { name, change } in events {
            if change != Change::Modified {
                written.remove(&name);
            } else if !written.insert(name.clone()) {
                continue;
            }
            match classify(&name) {
                NameClass::Fetcher(file) => commands.push((file, change)),
                NameClass::Odd(odd) if self.warned.is_news(&name) => {
                    self.metrics.odd_names.add(1);
                    tracing::warn!(?name, "ignored: {odd}");
                }
                NameClass::Odd(_) | NameClass::Other => {}
            }
        }
        commands
    }

    fn rescan(&mut self) {
        self.metrics.rescans.add(1);
        if self.commands.tell(ReadCommand::Rescan).is_err() {
            // The inbox is full, so the reader will look at the flag before it waits. If it emptied the inbox between
            // the two lines, the second try tells it.
            self.rescan.raise();
            let _ = self.commands.tell(ReadCommand::Rescan);
        }
    }
}
