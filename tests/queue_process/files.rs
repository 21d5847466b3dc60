//! Fetcher files and their rows: the cases of the original's own test (CONTRACT QC01 to QC09),
//! lines (CONTRACT QC17 to QC19, QC21, QC22), removed files (CONTRACT QC23 to QC25) and names
//! (CONTRACT QC26, QC27). The tests read the database from another process.

use std::{fs, os::unix::fs::symlink};

use orchestrator_harness::{Database, Reply, TestEnv};

use crate::site;

const ATTRS: &str = "SELECT attr_path FROM queue ORDER BY 1";
const RUNS: &str =
    "SELECT name, run_started, is_complete FROM fetchers JOIN fetcher_runs USING (fetcher_id) ORDER BY 1, 2";

/// Writes a file and waits for its row; earlier changes of the directory have been processed then.
fn settle(site: &TestEnv, database: &Database, name: &str) {
    site.write(name, "settled 1\n");
    let attr = "SELECT count(*) FROM queue WHERE attr_path = 'settled'";
    database.expect(attr, &["1"]);
    site.remove(name);
    database.expect(attr, &["0"]);
}

#[test]
fn c01_case_10_a_growing_file_is_followed() {
    let site = site();
    let _instance = site.start();
    site.write("f1.100.txt.part", "alpha 0 1\n");
    site.database().expect_queue(&["1|100|alpha|0 1"]);
    site.append("f1.100.txt.part", "bravo 0 1\n");
    site.database().expect_queue(&["1|100|alpha|0 1", "1|100|bravo|0 1"]);
    site.database().expect(RUNS, &["f1|100|0"]);
}

#[test]
fn c02_c03_cases_11_and_12_a_complete_file_is_read_and_deleted() {
    let site = site();
    site.write("f1.100.txt", "alpha 0 1\n");
    let _instance = site.start();
    site.database().expect_queue(&["1|100|alpha|0 1"]);
    site.database().expect(RUNS, &["f1|100|1"]);
    site.remove("f1.100.txt");
    site.database().expect_queue(&[]);
    site.database().expect("SELECT name FROM fetchers", &[]);
}

/// Workers are answered once the initial part of the files was read.
#[test]
fn c02_workers_are_answered_before_large_files_are_read() {
    let site = site();
    site.write("f1.1.txt", (0..300_000).map(|n| format!("a{n} 1\n")).collect::<String>());
    site.write("f2.2.txt", "alpha 0 1\n");
    let _instance = site.start();
    assert_ne!(site.worker().ready(), Reply::NoJobs);
    assert_eq!(site.database().rows(RUNS), ["f1|1|0", "f2|2|1"]);
}

#[test]
fn c04_case_13_an_existing_growing_file_is_followed() {
    let site = site();
    site.write("f1.100.txt.part", "alpha 0 1\n");
    let _instance = site.start();
    site.database().expect_queue(&["1|100|alpha|0 1"]);
    site.append("f1.100.txt.part", "bravo 0 1\n");
    site.database().expect_queue(&["1|100|alpha|0 1", "1|100|bravo|0 1"]);
}

#[test]
fn c05_case_14_a_renamed_file_completes_its_run() {
    let site = site();
    site.write("f1.100.txt.part", "alpha 0 1\n");
    site.write("f2.101.txt.part", "bravo 0 1\n");
    let _instance = site.start();
    let database = site.database();
    database.expect(ATTRS, &["alpha", "bravo"]);
    site.rename("f1.100.txt.part", "f1.100.txt");
    site.write("f1.102.txt.part", "charlie 0 1\n");
    database.expect(ATTRS, &["alpha", "bravo", "charlie"]);
    database.expect(RUNS, &["f1|100|1", "f1|102|0", "f2|101|0"]);
    site.remove("f1.100.txt");
    database.expect(ATTRS, &["bravo", "charlie"]);
}

#[test]
fn c06_case_15_a_line_counts_once_its_end_is_written() {
    let site = site();
    let instance = site.start();
    let database = site.database();
    for piece in ["al", "pha 0 1\n", "bra", "vo ", "0 1"] {
        site.append("f1.100.txt.part", piece);
    }
    database.expect(ATTRS, &["alpha"]);
    settle(&site, &database, "z.1.txt");
    database.expect(ATTRS, &["alpha"]);
    // The unfinished line is also kept back after a restart.
    assert!(instance.terminate().success());
    let _instance = site.start();
    settle(&site, &database, "z.2.txt");
    database.expect(ATTRS, &["alpha"]);
    site.append("f1.100.txt.part", "\n");
    database.expect_queue(&["1|100|alpha|0 1", "1|100|bravo|0 1"]);
}

#[test]
fn c07_c08_cases_16_and_17_files_change_while_the_queue_is_stopped() {
    let site = site();
    let instance = site.start();
    let database = site.database();
    site.write("f1.100.txt", "alpha 0 1\n");
    database.expect_queue(&["1|100|alpha|0 1"]);
    site.write("f2.101.txt", "bravo 0 1\n");
    database.expect(ATTRS, &["alpha", "bravo"]);
    let ids = database.rows("SELECT fetcher_id FROM fetchers ORDER BY name");
    assert!(instance.terminate().success());
    site.remove("f1.100.txt");
    site.write("f1.102.txt", "charlie 0 1\n");
    let instance = site.start();
    database
        .expect("SELECT fetcher_run_started, attr_path FROM queue ORDER BY 1", &["101|bravo", "102|charlie"]);
    assert_eq!(database.rows("SELECT fetcher_id FROM fetchers ORDER BY name"), ids, "f1 keeps its place");
    assert!(instance.terminate().success());
    site.remove("f1.102.txt");
    let _instance = site.start();
    database.expect(RUNS, &["f2|101|1"]);
    assert_eq!(database.queue(), [format!("{}|101|bravo|0 1", ids[1])]);
}

#[test]
fn c09_case_18_a_restart_keeps_dequeued_marks_and_follows_the_file() {
    let site = site();
    site.write("f1.100.txt.part", "alpha 0 1\n");
    let instance = site.start();
    let database = site.database();
    assert_eq!(site.worker().ready().attr_path(), "alpha");
    assert!(instance.terminate().success());
    site.append("f1.100.txt.part", "bravo 0 1\n");
    let _instance = site.start();
    database.expect_queue(&["1|100|alpha|0 1", "1|100|bravo|0 1"]);
    let mut worker = site.worker();
    assert_eq!(worker.ready().attr_path(), "bravo");
    assert_eq!(worker.ready(), Reply::NoJobs, "alpha was handed out before");
}

#[test]
fn c17_c18_c19_line_forms() {
    let site = site();
    let _instance = site.start();
    let text = "alpha 0 1\nbravo 0 1\r\ncharlie 0 1\rdelta  two  blanks\t \n x\t9 1 2\u{1c}\u{a0}\nnothing\n\n \
                \nl\u{2028}s\u{b}v\u{c}f\u{85}n\u{1d}g 'q' \"d\" %s\necho old\necho new\nlast 1\n";
    site.write("f1.100.txt", text);
    site.database().expect_queue(&[
        "1|100|alpha|0 1",
        "1|100|bravo|0 1",
        "1|100|charlie|0 1",
        "1|100|delta| two  blanks",
        "1|100|echo|new",
        "1|100|last|1",
        "1|100|l\u{2028}s\u{b}v\u{c}f\u{85}n\u{1d}g|'q' \"d\" %s",
        "1|100|x\t9|1 2",
    ]);
}

#[test]
fn c21_c22_an_unterminated_line_is_dropped_at_completion() {
    let site = site();
    let instance = site.start();
    let database = site.database();
    site.write("f1.100.txt", "alpha 0 1\ntail 0 1");
    site.write("f2.101.txt.part", "bravo 0 1\ntail 0 1");
    database.expect(ATTRS, &["alpha", "bravo"]);
    site.rename("f2.101.txt.part", "f2.101.txt");
    database.expect("SELECT count(*) FROM fetcher_runs WHERE is_complete", &["2"]);
    assert!(instance.terminate().success());
    let _instance = site.start();
    settle(&site, &database, "z.1.txt");
    database.expect(ATTRS, &["alpha", "bravo"]);
}

#[test]
fn c22_lines_written_with_the_rename_are_read() {
    let site = site();
    let _instance = site.start();
    let database = site.database();
    site.write("f1.0100.txt.part", "alpha 0 1\n");
    database.expect(ATTRS, &["alpha"]);
    site.append("f1.0100.txt.part", "bravo 0 1\n");
    site.rename("f1.0100.txt.part", "f1.0100.txt");
    database.expect(ATTRS, &["alpha", "bravo"]);
    database.expect(RUNS, &["f1|100|1"]);
}

#[test]
fn c23_c24_removing_a_growing_file_deletes_its_rows() {
    let site = site();
    let _instance = site.start();
    let database = site.database();
    for name in ["f1.1.txt.part", "f2.2.txt.part", "f3.3.txt.part", "f4.4.txt.part"] {
        site.write(name, format!("{} 0 1\n", &name[..2]));
    }
    database.expect(ATTRS, &["f1", "f2", "f3", "f4"]);
    site.rename("f1.1.txt.part", "elsewhere");
    fs::rename(site.file("f2.2.txt.part"), site.path().join("outside")).unwrap();
    site.remove("f3.3.txt.part");
    database.expect(ATTRS, &["f4"]);
    database.expect(RUNS, &["f4|4|0"]);
}

#[test]
fn c25_files_do_not_change_the_log() {
    let site = site();
    site.write("f1.1.txt", "alpha 0 1\n");
    let instance = site.start();
    let database = site.database();
    let mut worker = site.worker();
    worker.ready();
    assert_eq!(worker.done("alpha", 7), Reply::NoJobs);
    let log = database.rows("SELECT * FROM log");
    site.remove("f1.1.txt");
    database.expect_queue(&[]);
    assert!(instance.terminate().success());
    let _instance = site.start();
    settle(&site, &database, "z.1.txt");
    assert_eq!(database.rows("SELECT * FROM log"), log);
}

#[test]
fn c26_c27_file_names() {
    let site = site();
    fs::create_dir(site.file("deeper")).unwrap();
    fs::write(site.file("deeper/f1.1.txt"), "no 1\n").unwrap();
    let _instance = site.start();
    for name in ["f1", "f1.txt", "f1.1", "f1.1.TXT", "a.b.1.txt", ".x.1.txt", "f1.1.txt.", "1.txt"] {
        site.write(name, "no 1\n");
    }
    fs::create_dir(site.file("later")).unwrap();
    fs::write(site.file("later/f1.1.txt"), "no 1\n").unwrap();
    symlink(site.file("f1"), site.file("linked.txt")).unwrap();
    for name in [".100.txt", "neg.-5.txt", "über 1'%.7.txt.part", "max.9223372036854775807.txt"] {
        site.write(name, format!("{} 1\n", name.replace(' ', "_")));
    }
    site.database().expect(
        "SELECT name, fetcher_run_started, attr_path FROM queue JOIN fetchers USING (fetcher_id) ORDER BY 2",
        &[
            "neg|-5|neg.-5.txt",
            "über 1'%|7|über_1'%.7.txt.part",
            "|100|.100.txt",
            "max|9223372036854775807|max.9223372036854775807.txt",
        ],
    );
}
