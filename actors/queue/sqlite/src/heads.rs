//! The first group of every section, kept in memory. A dequeue reads only sections that have
//! changed.

use super::groups;
use super::runs::Runs;
use orchestrator_queue_rules::storage::{Class, GroupKey, GroupPosition, Section};
use rusqlite::Connection;
use std::collections::{BTreeMap, HashMap};

/// Key of a head, and its run to distinguish equal keys, which only a damaged table has.
type HeadKey = (GroupKey, i64);

/// Heads of all sections, without deleted runs.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// Heads of groups that are not held, by class.
    free: BTreeMap<Class, BTreeMap<HeadKey, Section>>,
    /// Heads of held groups, by class.
    held: BTreeMap<Class, BTreeMap<HeadKey, Section>>,
    of_section: HashMap<Section, GroupKey>,
    /// Sections whose head was removed; the next one is read when it is needed.
    stale: Vec<Section>,
}

impl Heads {
    /// Takes one seek per section.
    pub(super) fn load(conn: &Connection, runs: &Runs) -> rusqlite::Result<Self> {
        let mut heads = Self::default();
        for (section, key) in groups::sections(conn)? {
            if !runs.is_deleted(section.fetcher_id, section.run_started) {
                heads.set(section, key);
            }
        }
        Ok(heads)
    }

    /// Returns the first group that is not held, and the held one whose hold ends first, of the classes
    /// that are not full.
    ///
    /// If there is no free group and no hold is over, the answer to a worker is `NOJOBS`. The table is
    /// read only for sections that lost their head.
    pub(super) fn first(
        &mut self,
        conn: &Connection,
        is_full: impl Fn(Class) -> bool,
    ) -> rusqlite::Result<[Option<(GroupKey, Section)>; 2]> {
        while let Some(section) = self.stale.pop() {
            // An insertion may have set a head although the table has smaller groups.
            self.unset(section);
            if let Some(key) = groups::first(conn, section)? {
                self.set(section, key);
            }
        }
        let first = |classes: &BTreeMap<Class, BTreeMap<HeadKey, Section>>| {
            let open = classes.iter().filter(|(class, _)| !is_full(**class));
            let heads = open.filter_map(|(_, heads)| heads.first_key_value());
            heads.min().map(|((key, _), section)| (key.clone(), *section))
        };
        Ok([first(&self.free), first(&self.held)])
    }

    /// Held sections as of the last [`Self::first`].
    pub(super) fn held(&self) -> impl Iterator<Item = Section> {
        self.held.values().flat_map(|heads| heads.values().copied())
    }

    /// All sections as of the last [`Self::first`].
    pub(super) fn sections(&self) -> impl Iterator<Item = Section> {
        self.of_section.keys().copied()
    }

    /// Updates the heads after a group was inserted into the table.
    pub(super) fn inserted(&mut self, position: &GroupPosition, attr_path: &str) {
        let section = position.section;
        let is_first = self.of_section.get(&section).is_none_or(|head| {
            (position.last_started, position.order_jitter, attr_path)
                < (head.last_started, head.order_jitter, head.attr_path.as_str())
        });
        if is_first {
            self.unset(section);
            self.set(section, position.key(attr_path));
        }
    }

    /// Updates the heads after a group was removed from the table.
    pub(super) fn removed(&mut self, position: &GroupPosition, attr_path: &str) {
        let section = position.section;
        let was_first = self.of_section.get(&section).is_some_and(|head| {
            head.last_started == position.last_started
                && head.order_jitter == position.order_jitter
                && head.attr_path == attr_path
        });
        if was_first {
            self.unset(section);
            self.stale.push(section);
        }
    }

    /// Drops the heads of a run that was marked as deleted.
    pub(super) fn drop_run(&mut self, fetcher_id: i64, run_started: i64) {
        let of_run =
            |section: &Section| (section.fetcher_id, section.run_started) == (fetcher_id, run_started);
        let sections: Vec<Section> = self.of_section.keys().copied().filter(of_run).collect();
        sections.into_iter().for_each(|section| self.unset(section));
        self.stale.retain(|section| (section.fetcher_id, section.run_started) != (fetcher_id, run_started));
    }

    fn set(&mut self, section: Section, key: GroupKey) {
        self.side(section).insert((key.clone(), section.run_started), section);
        self.of_section.insert(section, key);
    }

    fn unset(&mut self, section: Section) {
        if let Some(key) = self.of_section.remove(&section) {
            self.side(section).remove(&(key, section.run_started));
        }
    }

    fn side(&mut self, section: Section) -> &mut BTreeMap<HeadKey, Section> {
        let classes = if section.held { &mut self.held } else { &mut self.free };
        classes.entry(section.class).or_default()
    }
}
