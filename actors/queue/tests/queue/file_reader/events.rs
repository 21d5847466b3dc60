//! The table of directory events (contract: directory events).

use std::{fs, io::Write};

use super::house::House;

#[test]
fn c23_a_whole_file_of_another_inode_does_not_save_the_run() {
    let house = House::new();
    house.write("f1.100.txt.part", "alpha 0 1\n");
    house.holds(&[("f1", 100, false, &["alpha 0 1"])]);
    house.write("f1.100.txt", "bravo 0 1\n");
    house.holds(&[("f1", 100, true, &["alpha 0 1", "bravo 0 1"])]);
    house.rename("f1.100.txt.part", "other");
    house.holds(&[]);
    house.append("f1.100.txt", "charlie 0 1\n");
    house.settle();
    house.holds(&[]);
}

#[test]
fn leading_zeros_do_not_lose_the_run() {
    let house = House::new();
    house.write("f.0100.txt.part", "alpha 0 1\n");
    house.holds(&[("f", 100, false, &["alpha 0 1"])]);
    house.rename("f.0100.txt.part", "f.0100.txt");
    house.holds(&[("f", 100, true, &["alpha 0 1"])]);
    assert!(!house.content().log.iter().any(|op| op.starts_with("delete")), "{:?}", house.content().log);
}

#[test]
fn a_file_linked_into_place_is_complete_at_once() {
    let house = House::new();
    house.write("tmp", "alpha 0 1\n");
    fs::hard_link(house.path("tmp"), house.path("f1.100.txt")).expect("link");
    house.holds(&[("f1", 100, true, &["alpha 0 1"])]);
    house.remove("tmp");
    house.settle();
    house.holds(&[("f1", 100, true, &["alpha 0 1"])]);
}

#[test]
fn a_created_file_is_served_at_once_and_complete_after_a_quiet_second() {
    let house = House::new();
    let mut file = house.create("f1.100.txt");
    file.write_all(b"alpha 0 1\n").expect("write");
    house.holds(&[("f1", 100, false, &["alpha 0 1"])]);
    house.holds(&[("f1", 100, true, &["alpha 0 1"])]);
    drop(file);
}

#[test]
fn a_growing_file_replaced_by_another_starts_anew() {
    let house = House::new();
    house.write("f1.100.txt.part", "alpha 0 1\n");
    house.holds(&[("f1", 100, false, &["alpha 0 1"])]);
    house.write("tmp", "bravo 0 1\n");
    house.rename("tmp", "f1.100.txt.part");
    house.holds(&[("f1", 100, false, &["bravo 0 1"])]);
    house.append("f1.100.txt.part", "charlie 0 1\n");
    house.holds(&[("f1", 100, false, &["bravo 0 1", "charlie 0 1"])]);
}

#[test]
fn a_symbolic_link_to_a_growing_file_elsewhere_is_followed() {
    let house = House::new();
    let target = house.temp.as_ref().expect("directory").path().join("target");
    fs::write(&target, "alpha 0 1\n").expect("write");
    std::os::unix::fs::symlink(&target, house.path("f1.100.txt.part")).expect("link");
    house.holds(&[("f1", 100, false, &["alpha 0 1"])]);
    fs::write(&target, "alpha 0 1\nbravo 0 1\n").expect("write");
    house.holds(&[("f1", 100, false, &["alpha 0 1", "bravo 0 1"])]);
}

#[test]
fn large_files_are_read_whole_and_in_turns() {
    let house = House::new();
    let text: String = (0..100_000).map(|n| format!("attr{n} {n}\n")).collect();
    house.write("a.1.txt", &text);
    house.write("b.1.txt", &text);
    super::house::eventually("both are complete", || {
        let content = house.content();
        content.runs.len() == 2 && content.runs.values().all(|run| run.complete && run.rows.len() == 100_000)
    });
    let completed: Vec<_> = house.content().log.into_iter().filter(|op| op.ends_with("true")).collect();
    assert_eq!(completed.len(), 2, "complete is said once, with the last rows: {completed:?}");
}
