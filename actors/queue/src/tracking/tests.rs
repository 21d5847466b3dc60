//! The table of directory events, row by row, and any history of them.

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

/// A directory and a reader that does at once what it is told.
#[derive(Default)]
struct World {
    tracking: Tracking,
    directory: BTreeMap<String, u64>,
}

impl World {
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
    let mut world = World::with(&[(PART, 1)]);
    assert_eq!(world.event(PART, Change::Created), begin(PART));
    assert_eq!(world.event(PART, Change::Modified), [Action::Check(FileKind::Growing)]);
    assert_eq!(world.event(PART, Change::Closed), [Action::Check(FileKind::Growing)]);
}

#[test]
fn c02_a_whole_file_in_a_listing_is_read() {
    let mut world = World::with(&[(WHOLE, 1)]);
    assert_eq!(world.examine(WHOLE, Cause::Listed), begin(WHOLE));
    assert_eq!(world.examine(WHOLE, Cause::Listed), [Action::Check(FileKind::Complete)]);
}

#[test]
fn c03_a_whole_file_that_goes_takes_its_run_with_it() {
    for change in [Change::Deleted, Change::MovedFrom] {
        let mut world = World::with(&[(WHOLE, 1)]);
        world.examine(WHOLE, Cause::Listed);
        world.directory.clear();
        assert_eq!(world.event(WHOLE, change), [Action::Delete]);
        assert_eq!(world.event(WHOLE, change), [], "once");
        assert!(!world.tracking.is_tracked(&file(WHOLE).run));
    }
}

#[test]
fn c05_c22_a_part_renamed_to_its_whole_name_is_finished() {
    let mut world = World::with(&[(PART, 1)]);
    world.event(PART, Change::Created);
    world.rename(PART, WHOLE);
    assert_eq!(world.event(PART, Change::MovedFrom), [Action::Finish(WHOLE.into())]);
    assert_eq!(world.event(WHOLE, Change::MovedTo), [Action::Check(FileKind::Complete)]);
    world.directory.clear();
    assert_eq!(world.event(WHOLE, Change::Deleted), [Action::Delete]);
}

#[test]
fn a_rename_seen_from_its_end_first_is_a_rename() {
    let mut world = World::with(&[(PART, 1)]);
    world.event(PART, Change::Created);
    world.rename(PART, WHOLE);
    assert_eq!(world.examine(WHOLE, Cause::Listed), [Action::Finish(WHOLE.into())]);
    assert_eq!(world.event(PART, Change::MovedFrom), []);
}

#[test]
fn leading_zeros_are_finished_under_their_own_name_or_the_plain_one() {
    for whole in ["f.0100.txt", "f.100.txt"] {
        let mut world = World::with(&[("f.0100.txt.part", 1)]);
        world.event("f.0100.txt.part", Change::Created);
        world.rename("f.0100.txt.part", whole);
        assert_eq!(world.event("f.0100.txt.part", Change::MovedFrom), [Action::Finish(whole.into())]);
        assert_eq!(world.event(whole, Change::MovedTo), [Action::Check(FileKind::Complete)]);
    }
}

#[test]
fn two_spellings_of_one_run_collide() {
    let mut world = World::with(&[("f.100.txt", 1), ("f.0100.txt", 2)]);
    world.examine("f.100.txt", Cause::Listed);
    assert_eq!(world.examine("f.0100.txt", Cause::Listed), [Action::Collision]);
    world.directory.remove("f.0100.txt");
    assert_eq!(world.event("f.0100.txt", Change::Deleted), []);
}

#[test]
fn c23_a_part_moved_elsewhere_is_deleted() {
    let mut world = World::with(&[(PART, 1)]);
    world.event(PART, Change::Created);
    world.directory.clear();
    assert_eq!(world.event(PART, Change::MovedFrom), [Action::Delete]);
}

#[test]
fn c23_a_part_moved_beside_a_whole_of_another_inode_is_deleted_and_the_whole_not_read_again() {
    let mut world = World::with(&[(PART, 1), (WHOLE, 2)]);
    world.event(PART, Change::Created);
    world.event(WHOLE, Change::Created);
    world.directory.remove(PART);
    assert_eq!(world.event(PART, Change::MovedFrom), [Action::Delete]);
    assert_eq!(world.event(WHOLE, Change::Modified), []);
    assert_eq!(world.event(WHOLE, Change::Closed), []);
}

#[test]
fn c24_a_deleted_part_is_deleted_only_if_followed() {
    let mut world = World::with(&[(PART, 1)]);
    world.event(PART, Change::Created);
    world.directory.clear();
    assert_eq!(world.event(PART, Change::Deleted), [Action::Delete]);
    assert_eq!(world.event(PART, Change::Deleted), []);
}

#[test]
fn a_part_replaced_by_another_file_is_deleted_and_begun() {
    let mut world = World::with(&[(PART, 1)]);
    world.event(PART, Change::Created);
    world.directory.insert(PART.into(), 2);
    let expected = [vec![Action::Delete], begin(PART)].concat();
    assert_eq!(world.event(PART, Change::MovedTo), expected);
    assert_eq!(world.event(PART, Change::Modified), [Action::Check(FileKind::Growing)]);
}

#[test]
fn events_older_than_what_is_seen_do_no_harm() {
    let mut world = World::with(&[(PART, 1)]);
    assert_eq!(world.examine(PART, Cause::Listed), begin(PART));
    for change in [Change::Created, Change::Deleted, Change::MovedFrom, Change::Created] {
        assert_eq!(world.event(PART, change), [Action::Check(FileKind::Growing)], "{change:?}");
    }
}

#[test]
fn r10_a_part_gone_before_it_was_seen_is_read_under_its_whole_name() {
    let mut world = World::with(&[(WHOLE, 1)]);
    for change in [Change::Created, Change::Modified, Change::Closed, Change::MovedFrom] {
        assert_eq!(world.event(PART, change), []);
    }
    assert_eq!(world.event(WHOLE, Change::MovedTo), begin(WHOLE));
}

#[test]
fn r11_a_file_moved_over_a_whole_one_is_read() {
    let mut world = World::with(&[(WHOLE, 1)]);
    assert_eq!(world.event(WHOLE, Change::MovedTo), begin(WHOLE));
    world.directory.insert(WHOLE.into(), 2);
    assert_eq!(world.event(WHOLE, Change::MovedTo), begin(WHOLE));
}

#[test]
fn r12_a_whole_file_that_is_created_waits_for_its_writer() {
    let mut world = World::with(&[(WHOLE, 1)]);
    assert_eq!(world.event(WHOLE, Change::Created), [Action::Begin { file: file(WHOLE), settle: true }]);
    assert_eq!(world.event(WHOLE, Change::Modified), [Action::Check(FileKind::Complete)]);
    assert_eq!(world.event(WHOLE, Change::Closed), [Action::Settled]);
}

#[test]
fn a_whole_file_that_goes_beside_its_part_lets_the_part_begin_anew() {
    let mut world = World::with(&[(PART, 1), (WHOLE, 2)]);
    world.event(PART, Change::Created);
    world.event(WHOLE, Change::Created);
    world.directory.remove(WHOLE);
    assert_eq!(world.event(WHOLE, Change::Deleted), [vec![Action::Delete], begin(PART)].concat());
}

#[test]
fn a_part_linked_to_its_whole_name_and_removed_is_finished() {
    let mut world = World::with(&[(PART, 1)]);
    world.event(PART, Change::Created);
    world.directory.insert(WHOLE.into(), 1);
    world.event(WHOLE, Change::Created);
    world.directory.remove(PART);
    assert_eq!(world.event(PART, Change::Deleted), [Action::Finish(WHOLE.into())]);
}

proptest! {
    /// Whatever happened in the directory, in whatever order events of it arrive: once a listing is worked in, exactly
    /// the runs with a file are tracked, each by a file that is there.
    #[test]
    fn a_listing_makes_everything_right(
        steps in proptest::collection::vec((0..4usize, 0..6u8, any::<bool>()), 0..40),
    ) {
        let names = [PART, WHOLE, "g.2.txt.part", "g.2.txt"];
        let mut world = World::default();
        let mut inode = 0;
        for (name, step, told) in steps {
            let name = names[name];
            let change = match step {
                0 => { inode += 1; world.directory.insert(name.into(), inode); Change::Created }
                1 => { inode += 1; world.directory.insert(name.into(), inode); Change::MovedTo }
                2 => { world.directory.remove(name); Change::Deleted }
                3 => {
                    if let (Some(inode), Some(base)) = (world.directory.remove(name), name.strip_suffix(".part")) {
                        world.directory.insert(base.into(), inode);
                    }
                    Change::MovedFrom
                }
                4 => Change::Modified,
                _ => Change::Closed,
            };
            if told {
                world.event(name, change);
            }
        }
        let listed: Vec<String> = world.directory.keys().cloned().collect();
        for name in &listed {
            world.examine(name, Cause::Listed);
        }
        let followed: Vec<String> = world.tracking.files().iter().map(FetcherFile::name).collect();
        for name in followed.iter().filter(|name| !listed.contains(name)) {
            world.examine(name, Cause::Listed);
        }
        for name in &listed {
            world.examine(name, Cause::Listed);
        }
        let mut followed: Vec<String> = world.tracking.files().iter().map(FetcherFile::name).collect();
        followed.sort();
        prop_assert_eq!(followed, listed);
    }
}
