//! Dumps that were cut or changed.

use super::*;

/// Dump of a queue with three jobs, one of them in flight.
fn sample() -> String {
    let mut queue = TestStore::new();
    feed(&mut queue, "f", 1, &[("a", "1 \u{1} \"é\""), ("b", "1")]);
    feed(&mut queue, "g", 7, &[("a", "2")]);
    let job = take(&mut queue, 100).unwrap();
    group(&mut queue, |s| s.delivered(job.handout));
    queue.close();
    dumped(&mut sqlite_source(&queue.path()))
}

fn refused(text: &[u8]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump.jsonl");
    fs::write(&file, text).unwrap();
    match DumpFile::open(&file) {
        Err(StorageError { kind: StorageErrorKind::NotMigrated, text, .. }) => text,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is not refused"),
    }
}

#[test]
fn d18_a_dump_is_a_line_for_each_row_and_its_checksum() {
    let text = sample();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["orchestrator_queue_dump"], 1);
    let of = |table: &str| lines.iter().filter(|line| line["table"] == table).collect::<Vec<_>>();
    assert_eq!(of("row").len(), 3);
    assert_eq!(of("row")[0]["payload"], "1 \u{1} \"é\"");
    assert_eq!(of("handout").len(), 1);
    let trailer = lines.last().unwrap();
    for table in Table::ALL {
        assert_eq!(trailer["rows"][table.name()], of(table.name()).len(), "{table:?}");
    }
    let before = text.len() - text.lines().last().unwrap().len() - 1;
    let sum = <sha2::Sha256 as sha2::Digest>::digest(&text[..before]);
    let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(trailer["sha256"], sum);
}

#[test]
fn d18_a_dump_that_was_cut_or_changed_is_refused_with_its_line() {
    let text = sample();
    for len in 0..text.len() {
        let refused = refused(&text.as_bytes()[..len]);
        assert!(refused.contains(": line "), "{len}: {refused}");
    }
    let lines: Vec<&str> = text.lines().collect();
    for at in 0..lines.len() {
        let mut without = lines.clone();
        without.remove(at);
        refused(format!("{}\n", without.join("\n")).as_bytes());
        let mut twice = lines.clone();
        twice.insert(at, lines[at]);
        refused(format!("{}\n", twice.join("\n")).as_bytes());
    }
    for (from, to, reason) in [
        (
            "\"orchestrator_queue_dump\":1",
            "\"orchestrator_queue_dump\":2",
            "line 1: this program reads format 1 and not 2",
        ),
        ("\"orchestrator_queue_dump\"", "\"x\"", "line 1: not the beginning of a dump"),
        ("\"name\":\"g\"", "\"name\":\"h\"", "they were changed"),
        ("\"name\":\"g\"", "\"name\":7", "line 3: name is no text"),
        ("\"incarnation\":", "\"incarnation\":1", "they were changed"),
        ("{\"rows\"", "{\"Rows\"", "neither a row nor a trailer"),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        let refused = refused(text.replacen(from, to, 1).as_bytes());
        assert!(refused.contains(reason), "{from}: {refused}");
    }
    assert!(refused(format!("{text}x\n").as_bytes()).contains("it is behind the trailer"));
    let changed = refused(text.replacen("\"table\":\"run\"", "\"table\":\"log\"", 1).as_bytes());
    assert!(changed.contains("log has no "), "{changed}");
}
