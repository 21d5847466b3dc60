//! The actor that turns directory events into commands for the file reader.
//!
//! Classifies file names, warns about malformed ones, drops redundant writes and sends the rest as
//! commands. It never waits: if the reader's inbox is full, it requests one rescan. It opens and
//! lists nothing.

use std::collections::HashSet;

use orchestrator_observe::metrics;
use orchestrator_queue_rules::{
    file_name::{NameClass, classify},
    tracking::Change,
};
use orchestrator_supervise::{
    Child, ChildCx, Factory, Handle, Handled, MailboxSlot, Message, Outbox, StartCx,
};

use crate::{
    edge::files::RescanFlag,
    messages::{DirectoryEvent, DirectoryNotice, ReadCommand},
    warned_names::WarnedNames,
};

impl Message for DirectoryNotice {
    type Result = ();
}

metrics! {
    /// Metrics of the fetcher watcher.
    struct WatcherMetrics {
        /// Events received from the input directory.
        events: counter("events") as "directory_events",
        /// Rescans of the input directory: at the start, after lost events and when the directory
        /// was created again.
        rescans: counter("rescans"),
        /// Files ignored because their names look like fetcher files but are malformed.
        malformed_names: counter("names"),
    }
}

/// The actor's state.
#[derive(Debug)]
pub(crate) struct FetcherWatcher {
    commands: Outbox<ReadCommand>,
    rescan: RescanFlag,
    warned: WarnedNames,
    metrics: WatcherMetrics,
}

impl Child for FetcherWatcher {}

impl Handle<DirectoryNotice> for FetcherWatcher {
    fn handle(&mut self, notice: DirectoryNotice, _cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        match notice {
            DirectoryNotice::Rescan => self.rescan(),
            DirectoryNotice::Changed(events) => self.changed(events),
        }
        Handled::done()
    }
}

impl FetcherWatcher {
    pub(crate) fn factory(
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
        for command in self.commands_of(events) {
            if self.commands.tell(command).is_err() {
                // The rescan covers this and later commands until the inbox has room.
                return self.rescan();
            }
        }
    }

    /// In the order of the events. Of consecutive writes to one file only the first is kept.
    fn commands_of(&mut self, events: Vec<DirectoryEvent>) -> Vec<ReadCommand> {
        let mut commands = Vec::with_capacity(events.len());
        let mut written = HashSet::new();
        for DirectoryEvent { name, change } in events {
            if change != Change::Modified {
                written.remove(&name);
            } else if !written.insert(name.clone()) {
                continue;
            }
            match classify(&name) {
                NameClass::Fetcher(file) => commands.push(ReadCommand::Examine { file, change }),
                NameClass::Malformed(error) => {
                    if self.warned.should_warn(&name) {
                        self.metrics.malformed_names.add(1);
                        tracing::warn!(?name, "ignored: {error}");
                    }
                    if !matches!(change, Change::Modified | Change::Closed) {
                        commands.push(ReadCommand::Ignored { name, error });
                    }
                }
                NameClass::Other => {}
            }
        }
        commands
    }

    fn rescan(&mut self) {
        self.metrics.rescans.add(1);
        if self.commands.tell(ReadCommand::Rescan).is_err() {
            // The reader checks the flag before it waits. The second `tell` wakes it up if it
            // emptied the inbox before the flag was raised.
            self.rescan.raise();
            let _ = self.commands.tell(ReadCommand::Rescan);
        }
    }
}
