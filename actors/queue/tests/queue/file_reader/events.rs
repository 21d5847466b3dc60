//! The table of directory events (contract: directory events).

use std::{fs, io::Write};

use super::house::House;

#[test]
fn c01_a_growing_file_is_read_as_it_grows() {
    let house = House::new();
    let mut file = house.create("f1.100.txt.part");
    file.write_all(b"alpha 0 1\n").expect("write");
    house.holds(&[("f1", 100, false, &["alpha 0 1"])]);
    file.write_all(b"bravo 0 1\n").expect("write");
    house.holds(&[("f1", 100, false, &["alpha 0 1", "bravo 0 1"])]);
}

#[test]
fn c03_a_deleted_file_takes_its_run_with_it() {
    let house = House::new();
    house.write("f1.100.txt", "alpha 0 1\n");
    house.holds(&[("f1", 100, true, &["alpha 0 1"])]);
    house.remove("f1.100.txt");
    house.holds(&[]);
}

#[test]
fn c05_two_fetchers_finish_and_start_runs() {
    let house = House::new();
    house.write("f1.100.txt.part", "alpha 0 1\n");
    house.write("f2.101.txt.part", "bravo 0 1\n");
    house.holds(&[("f1", 100, false, &["alpha 0 1"]), ("f2", 101, false, &["bravo 0 1"])]);
    house.rename("f1.100.txt.part", "f1.100.txt");
    house.write("f1.102.txt.part", "charlie 0 1\n");
    let others: [(&str, i64, bool, &[&str]); 2] =
        [("f1", 102, false, &["charlie 0 1"]), ("f2", 101, false, &["bravo 0 1"])];
    house.holds(&[("f1", 100, true, &["alpha 0 1"]), others[0], others[1]]);
    house.remove("f1.100.txt");
    house.holds(&others);
}

#[test]
fn c06_a_line_counts_once_its_end_is_written() {
    let house = House::new();
    let mut file = house.create("f1.100.txt.part");
    for piece in ["al", "pha 0 1\n", "bra", "vo ", "0 1"] {
        file.write_all(piece.as_bytes()).expect("write");
        house.settle();
    }
    house.holds(&[("f1", 100, false, &["alpha 0 1"])]);
    file.write_all(b"\n").expect("write");
    house.holds(&[("f1", 100, false, &["alpha 0 1", "bravo 0 1"])]);
}

#[test]
fn c17_a_later_line_replaces_an_earlier_one() {
    let house = House::new();
    house.write("f1.100.txt.part", "alpha 0 1\nalpha 0 2\n");
    house.append("f1.100.txt.part", "alpha 0 3\n");
    house.holds(&[("f1", 100, false, &["alpha 0 3"])]);
}

#[test]
fn c21_c22_a_tail_is_dropped_when_the_file_completes() {
    let house = House::new();
    house.write("f1.100.txt", "alpha 0 1\nbravo 0 1");
    house.write("f2.100.txt.part", "alpha 0 1\nbravo 0 1");
    house.rename("f2.100.txt.part", "f2.100.txt");
    house.holds(&[("f1", 100, true, &["alpha 0 1"]), ("f2", 100, true, &["alpha 0 1"])]);
}

#[test]
fn c23_a_growing_file_moved_elsewhere_is_deleted() {
    let house = House::new();
    house.write("f1.100.txt.part", "alpha 0 1\n");
    house.holds(&[("f1", 100, false, &["alpha 0 1"])]);
    let elsewhere = house.temp.as_ref().expect("directory").path().join("elsewhere");
    fs::rename(house.path("f1.100.txt.part"), &elsewhere).expect("rename");
    house.holds(&[]);
    fs::rename(elsewhere, house.path("f1.100.txt.part")).expect("rename");
    house.holds(&[("f1", 100, false, &["alpha 0 1"])]);
    house.rename("f1.100.txt.part", "f1.100.txt.bak");
    house.holds(&[]);
}

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
fn c24_a_deleted_growing_file_takes_its_run_with_it() {
    let house = House::new();
    house.write("f1.100.txt.part", "alpha 0 1\n");
    house.holds(&[("f1", 100, false, &["alpha 0 1"])]);
    house.remove("f1.100.txt.part");
    house.holds(&[]);
}

#[test]
fn c26_c27_only_names_of_the_two_shapes_count() {
    let house = House::new();
    for name in [
        "f1.100.TXT",
        "a.b.100.txt",
        ".x.1.txt",
        "f1.txt",
        "f1.100.txt.bak",
        "f1.x.txt",
        "f1.9223372036854775808.txt",
    ] {
        house.write(name, "alpha 0 1\n");
    }
    house.write(".-5.txt", "alpha 0 1\n");
    house.write("\u{fc} '%.7.txt", "alpha 0 1\n");
    house.holds(&[("", -5, true, &["alpha 0 1"]), ("\u{fc} '%", 7, true, &["alpha 0 1"])]);
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
fn r10_a_file_finished_before_it_was_seen_is_read() {
    let house = House::new();
    for run in 0..50 {
        let (part, whole) = (format!("f1.{run}.txt.part"), format!("f1.{run}.txt"));
        house.write(&part, "alpha 0 1\n");
        house.rename(&part, &whole);
    }
    let expected: Vec<(&str, i64, bool, &[&str])> =
        (0..50).map(|run| ("f1", run, true, &["alpha 0 1"][..])).collect();
    house.holds(&expected);
}

#[test]
fn r11_a_file_moved_into_place_is_read() {
    let house = House::new();
    house.write("tmp", "alpha 0 1\n");
    house.rename("tmp", "f1.100.txt");
    house.holds(&[("f1", 100, true, &["alpha 0 1"])]);
    house.write("tmp", "bravo 0 1\n");
    house.rename("tmp", "f1.100.txt");
    house.holds(&[("f1", 100, true, &["alpha 0 1", "bravo 0 1"])]);
}

#[test]
fn r12_a_complete_file_written_in_two_steps_is_read_whole() {
    let house = House::new();
    house.write("f1.100.txt", "alpha 0 1\nbra");
    house.holds(&[("f1", 100, true, &["alpha 0 1"])]);
    house.append("f1.100.txt", "vo 0 1\n");
    house.holds(&[("f1", 100, true, &["alpha 0 1", "bravo 0 1"])]);
    let log = house.content().log;
    assert_eq!(log.last().map(String::as_str), Some("rows f1 100 0 true").or(None), "{log:?}");
}

#[test]
fn r13_a_truncated_and_rewritten_file_is_read_from_its_beginning() {
    let house = House::new();
    house.write("f1.100.txt.part", "alpha 0 1\nbravo 0 1\n");
    house.holds(&[("f1", 100, false, &["alpha 0 1", "bravo 0 1"])]);
    house.write("f1.100.txt.part", "delta 0 1\n");
    house.holds(&[("f1", 100, false, &["alpha 0 1", "bravo 0 1", "delta 0 1"])]);
    house.write("f1.100.txt.part", "alpha 0 2\nbravo 0 2\ncharlie 0 2\ndelta 0 2\n");
    house.holds(&[("f1", 100, false, &["alpha 0 2", "bravo 0 2", "charlie 0 2", "delta 0 2"])]);
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
