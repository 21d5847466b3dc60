//! The table of actions row by row, and random histories of events.

use std::{collections::BTreeMap, ffi::OsStr};

use proptest::prelude::*;

use super::*;
use crate::file_name::{NameClass, classify};

fn file(name: &str) -> FetcherFile {
    match classify(OsStr::new(name)) {
        NameClass::Fetcher(file) => file,
        other => panic!("{name} is {other:?}"),
    }
}

fn id(inode: u64) -> FileId {
    FileId { device: 1, inode }
}

/// A directory and a reader that executes actions at once.
#[derive(Default)]
struct Simulation {
    tracking: Tracking,
    directory: BTreeMap<String, u64>,
}

impl Simulation {
    fn with(files: &[(&str, u64)]) -> Self {
        let directory = files.iter().map(|&(name, inode)| (name.to_owned(), inode)).collect();
        Self { directory, ..Self::default() }
    }

    fn examine(&mut self, name: &str, cause: Cause) -> Vec<Action> {
        let file = file(name);
        let names = self.tracking.names(&file);
        let seen = |name: &String| self.directory.get(name).map(|&inode| id(inode));
        let whole = names.wholes.iter().find_map(|name| seen(name).map(|id| (name.clone(), id)));
        let actions = self.tracking.decide(&file, cause, &CurrentFiles { part: seen(&names.part), whole });
        for action in &actions {
            if let Action::Begin { file, .. } = action {
                let inode = self.directory[&file.name()];
                self.tracking.began(file, id(inode));
            }
        }
        actions
    }

    fn event(&mut self, name: &str, change: Change) -> Vec<Action> {
        self.examine(name, Cause::Changed(change))
    }

    fn rename(&mut self, from: &str, to: &str) {
        let inode = self.directory.remove(from).expect("renamed file");
        self.directory.insert(to.to_owned(), inode);
    }
}

fn begin(name: &str) -> Vec<Action> {
    vec![Action::Begin { file: file(name), settle: false }]
}

const PART: &str = "f.1.txt.part";
const WHOLE: &str = "f.1.txt";

#[test]
fn c01_c04_a_part_is_followed_from_its_creation() {
    let mut simulation = Simulation::with(&[(PART, 1)]);
    assert_eq!(simulation.event(PART, Change::Created), begin(PART));
    assert_eq!(simulation.event(PART, Change::Modified), [Action::Check(FileKind::Growing)]);
    assert_eq!(simulation.event(PART, Change::Closed), [Action::Check(FileKind::Growing)]);
}

#[test]
fn c02_a_whole_file_in_a_listing_is_read() {
    let mut simulation = Simulation::with(&[(WHOLE, 1)]);
    assert_eq!(simulation.examine(WHOLE, Cause::Listed), begin(WHOLE));
    assert_eq!(simulation.examine(WHOLE, Cause::Listed), [Action::Check(FileKind::Complete)]);
}

#[test]
fn c03_deleting_a_whole_file_deletes_its_run() {
    for change in [Change::Deleted, Change::MovedFrom] {
        let mut simulation = Simulation::with(&[(WHOLE, 1)]);
        simulation.examine(WHOLE, Cause::Listed);
        simulation.directory.clear();
        assert_eq!(simulation.event(WHOLE, change), [Action::Delete]);
        assert_eq!(simulation.event(WHOLE, change), [], "once");
        assert!(!simulation.tracking.is_tracked(&file(WHOLE).run));
    }
}

#[test]
fn c05_c22_a_part_renamed_to_its_whole_name_is_finished() {
    let mut simulation = Simulation::with(&[(PART, 1)]);
    simulation.event(PART, Change::Created);
    simulation.rename(PART, WHOLE);
    assert_eq!(simulation.event(PART, Change::MovedFrom), [Action::Finish(WHOLE.into())]);
    assert_eq!(simulation.event(WHOLE, Change::MovedTo), [Action::Check(FileKind::Complete)]);
    simulation.directory.clear();
    assert_eq!(simulation.event(WHOLE, Change::Deleted), [Action::Delete]);
}

#[test]
fn a_rename_is_recognized_from_its_target() {
    let mut simulation = Simulation::with(&[(PART, 1)]);
    simulation.event(PART, Change::Created);
    simulation.rename(PART, WHOLE);
    assert_eq!(simulation.examine(WHOLE, Cause::Listed), [Action::Finish(WHOLE.into())]);
    assert_eq!(simulation.event(PART, Change::MovedFrom), []);
}

#[test]
fn a_part_with_leading_zeros_is_finished_under_either_spelling() {
    for whole in ["f.0100.txt", "f.100.txt"] {
        let mut simulation = Simulation::with(&[("f.0100.txt.part", 1)]);
        simulation.event("f.0100.txt.part", Change::Created);
        simulation.rename("f.0100.txt.part", whole);
        assert_eq!(simulation.event("f.0100.txt.part", Change::MovedFrom), [Action::Finish(whole.into())]);
        assert_eq!(simulation.event(whole, Change::MovedTo), [Action::Check(FileKind::Complete)]);
    }
}

#[test]
fn two_spellings_of_one_run_collide() {
    let mut simulation = Simulation::with(&[("f.100.txt", 1), ("f.0100.txt", 2)]);
    simulation.examine("f.100.txt", Cause::Listed);
    assert_eq!(simulation.examine("f.0100.txt", Cause::Listed), [Action::Collision]);
    simulation.directory.remove("f.0100.txt");
    assert_eq!(simulation.event("f.0100.txt", Change::Deleted), []);
}

#[test]
fn c23_a_part_moved_elsewhere_is_deleted() {
    let mut simulation = Simulation::with(&[(PART, 1)]);
    simulation.event(PART, Change::Created);
    simulation.directory.clear();
    assert_eq!(simulation.event(PART, Change::MovedFrom), [Action::Delete]);
}

#[test]
fn c23_a_part_moved_away_deletes_the_run_and_ignores_another_whole_file() {
    let mut simulation = Simulation::with(&[(PART, 1), (WHOLE, 2)]);
    simulation.event(PART, Change::Created);
    simulation.event(WHOLE, Change::Created);
    simulation.directory.remove(PART);
    assert_eq!(simulation.event(PART, Change::MovedFrom), [Action::Delete]);
    assert_eq!(simulation.event(WHOLE, Change::Modified), []);
    assert_eq!(simulation.event(WHOLE, Change::Closed), []);
}

#[test]
fn c24_a_deleted_part_is_deleted_only_if_followed() {
    let mut simulation = Simulation::with(&[(PART, 1)]);
    simulation.event(PART, Change::Created);
    simulation.directory.clear();
    assert_eq!(simulation.event(PART, Change::Deleted), [Action::Delete]);
    assert_eq!(simulation.event(PART, Change::Deleted), []);
}

#[test]
fn a_part_replaced_by_another_file_is_deleted_and_read() {
    let mut simulation = Simulation::with(&[(PART, 1)]);
    simulation.event(PART, Change::Created);
    simulation.directory.insert(PART.into(), 2);
    let expected = [vec![Action::Delete], begin(PART)].concat();
    assert_eq!(simulation.event(PART, Change::MovedTo), expected);
    assert_eq!(simulation.event(PART, Change::Modified), [Action::Check(FileKind::Growing)]);
}

#[test]
fn outdated_events_are_harmless() {
    let mut simulation = Simulation::with(&[(PART, 1)]);
    assert_eq!(simulation.examine(PART, Cause::Listed), begin(PART));
    for change in [Change::Created, Change::Deleted, Change::MovedFrom, Change::Created] {
        assert_eq!(simulation.event(PART, change), [Action::Check(FileKind::Growing)], "{change:?}");
    }
}

#[test]
fn r10_a_part_renamed_before_it_was_seen_is_read() {
    let mut simulation = Simulation::with(&[(WHOLE, 1)]);
    for change in [Change::Created, Change::Modified, Change::Closed, Change::MovedFrom] {
        assert_eq!(simulation.event(PART, change), []);
    }
    assert_eq!(simulation.event(WHOLE, Change::MovedTo), begin(WHOLE));
}

#[test]
fn r11_a_file_moved_over_a_whole_one_is_read() {
    let mut simulation = Simulation::with(&[(WHOLE, 1)]);
    assert_eq!(simulation.event(WHOLE, Change::MovedTo), begin(WHOLE));
    simulation.directory.insert(WHOLE.into(), 2);
    assert_eq!(simulation.event(WHOLE, Change::MovedTo), begin(WHOLE));
}

#[test]
fn r12_a_whole_file_that_is_created_waits_for_its_writer() {
    let mut simulation = Simulation::with(&[(WHOLE, 1)]);
    assert_eq!(simulation.event(WHOLE, Change::Created), [Action::Begin { file: file(WHOLE), settle: true }]);
    assert_eq!(simulation.event(WHOLE, Change::Modified), [Action::Check(FileKind::Complete)]);
    assert_eq!(simulation.event(WHOLE, Change::Closed), [Action::Settled]);
}

#[test]
fn a_part_is_read_again_when_its_whole_file_is_deleted() {
    let mut simulation = Simulation::with(&[(PART, 1), (WHOLE, 2)]);
    simulation.event(PART, Change::Created);
    simulation.event(WHOLE, Change::Created);
    simulation.directory.remove(WHOLE);
    assert_eq!(simulation.event(WHOLE, Change::Deleted), [vec![Action::Delete], begin(PART)].concat());
}

#[test]
fn a_part_linked_to_its_whole_name_and_removed_is_finished() {
    let mut simulation = Simulation::with(&[(PART, 1)]);
    simulation.event(PART, Change::Created);
    simulation.directory.insert(WHOLE.into(), 1);
    simulation.event(WHOLE, Change::Created);
    simulation.directory.remove(PART);
    assert_eq!(simulation.event(PART, Change::Deleted), [Action::Finish(WHOLE.into())]);
}

proptest! {
    /// After any changes and any part of their events in any order, a listing leaves exactly the
    /// runs with a file tracked, each by an existing file.
    #[test]
    fn a_listing_corrects_any_former_state(
        steps in proptest::collection::vec((0..4usize, 0..6u8, any::<bool>()), 0..40),
    ) {
        let names = [PART, WHOLE, "g.2.txt.part", "g.2.txt"];
        let mut simulation = Simulation::default();
        let mut inode = 0;
        for (name, step, has_event) in steps {
            let name = names[name];
            let change = match step {
                0 => { inode += 1; simulation.directory.insert(name.into(), inode); Change::Created }
                1 => { inode += 1; simulation.directory.insert(name.into(), inode); Change::MovedTo }
                2 => { simulation.directory.remove(name); Change::Deleted }
                3 => {
                    if let (Some(inode), Some(base)) = (simulation.directory.remove(name), name.strip_suffix(".part")) {
                        simulation.directory.insert(base.into(), inode);
                    }
                    Change::MovedFrom
                }
                4 => Change::Modified,
                _ => Change::Closed,
            };
            if has_event {
                simulation.event(name, change);
            }
        }
        let listed: Vec<String> = simulation.directory.keys().cloned().collect();
        for name in &listed {
            simulation.examine(name, Cause::Listed);
        }
        let followed: Vec<String> = simulation.tracking.files().iter().map(FetcherFile::name).collect();
        for name in followed.iter().filter(|name| !listed.contains(name)) {
            simulation.examine(name, Cause::Listed);
        }
        for name in &listed {
            simulation.examine(name, Cause::Listed);
        }
        let mut followed: Vec<String> = simulation.tracking.files().iter().map(FetcherFile::name).collect();
        followed.sort();
        prop_assert_eq!(followed, listed);
    }
}
