//! Tests of the line splitter.

use proptest::prelude::*;

use super::*;

type Pairs = Vec<(String, String)>;

/// Feeds a piece of `text`, and reads a long line again.
fn feed(splitter: &mut LineSplitter, piece: &[u8], text: &[u8]) -> FeedResult {
    let mut fed = splitter.feed(piece, &|| ());
    if let Some(line) = fed.long.take() {
        let range = line.range();
        let at = |position| usize::try_from(position).expect("inside of the text");
        fed.add_long(&line, text[at(range.start)..at(range.end)].to_vec());
    }
    fed
}

fn read(pieces: &[&[u8]]) -> (Pairs, Vec<(u64, SkipReason)>) {
    let mut splitter = LineSplitter::default();
    let (mut rows, mut skips) = (Vec::new(), Vec::new());
    let text = pieces.concat();
    for piece in pieces {
        let fed = feed(&mut splitter, piece, &text);
        rows.extend(fed.rows);
        skips.extend(fed.skips.into_iter().map(|skip| (skip.line, skip.reason)));
    }
    (rows, skips)
}

fn rows(text: &str) -> Pairs {
    read(&[text.as_bytes()]).0
}

fn pairs(expected: &[(&str, &str)]) -> Pairs {
    expected.iter().map(|&(a, p)| (a.to_owned(), p.to_owned())).collect()
}

#[test]
fn c06_a_line_counts_once_its_end_is_written() {
    let mut splitter = LineSplitter::default();
    for (piece, count) in [("al", 0), ("pha 0 1\n", 1), ("bra", 0), ("vo ", 0), ("0 1", 0), ("\n", 1)] {
        let fed = splitter.feed(piece.as_bytes(), &|| ());
        assert_eq!(fed.rows.len(), count, "{piece:?}");
    }
}

#[test]
fn progress_is_reported_every_4096_lines() {
    let calls = std::cell::Cell::new(0);
    let mut splitter = LineSplitter::default();
    for _ in 0..3 {
        splitter.feed("a 1\n".repeat(4_000).as_bytes(), &|| calls.set(calls.get() + 1));
    }
    assert_eq!(calls.get(), 2, "12,000 lines");
}

#[test]
fn c18_the_first_space_splits_and_tabs_do_not() {
    assert_eq!(rows("x\t9 1 2\n"), pairs(&[("x\t9", "1 2")]));
    assert_eq!(rows("  a   1\t2  \n"), pairs(&[("a", "  1\t2")]));
    assert_eq!(rows("a b'\"% c\n"), pairs(&[("a", "b'\"% c")]));
    assert_eq!(read(&[b"alone\n\nx\ty\n"]).1, [1, 2, 3].map(|line| (line, SkipReason::NoSpace)));
}

#[test]
fn c19_only_cr_lf_and_crlf_end_lines() {
    assert_eq!(rows("a 1\rb 2\r\nc 3\n"), pairs(&[("a", "1"), ("b", "2"), ("c", "3")]));
    let odd = "a 1\u{b}2\u{c}3\u{1c}4\u{85}5\u{2028}6\n";
    assert_eq!(rows(odd), pairs(&[("a", &odd[2..odd.len() - 1])]));
    for space in ["\u{1c}", "\u{1d}", "\u{1e}", "\u{1f}", "\u{a0}", "\u{3000}", "\u{2028}", "\t", "\u{b}"] {
        assert_eq!(rows(&format!("{space}a 1{space}\n")), pairs(&[("a", "1")]), "{space:?}");
    }
    assert_eq!(rows("\u{feff}a 1\u{200b}\n"), pairs(&[("\u{feff}a", "1\u{200b}")]));
}

#[test]
fn c19_a_cr_at_the_end_of_a_read_ends_the_line_at_once() {
    let mut splitter = LineSplitter::default();
    assert_eq!(splitter.feed(b"a 1\r", &|| ()).rows.len(), 1);
    let fed = splitter.feed(b"\nb\n", &|| ());
    assert_eq!(
        fed.skips,
        [SkippedLine { line: 2, reason: SkipReason::NoSpace }],
        "the \\n belongs to line 1"
    );
    assert_eq!(read(&[b"a 1\r", b"\n", b"\nb 2\n"]).0, pairs(&[("a", "1"), ("b", "2")]));
    assert_eq!(read(&[b"a 1\r", b"", b"\nb 2\n"]).1, []);
}

#[test]
fn r04_r05_an_invalid_line_is_skipped_with_its_number() {
    let (rows, skips) = read(&[b"a 1\nb\xff 2\nc 3\n\xe2\x82\nd 4\n"]);
    assert_eq!(rows, pairs(&[("a", "1"), ("c", "3"), ("d", "4")]));
    assert_eq!(skips, [(2, SkipReason::NotUtf8), (4, SkipReason::NotUtf8)]);
}

#[test]
fn r06_a_character_split_between_reads_is_kept() {
    let text = "日本語 1 \u{1f980}\n".as_bytes();
    for cut in 0..text.len() {
        assert_eq!(read(&[&text[..cut], &text[cut..]]).0, pairs(&[("日本語", "1 \u{1f980}")]));
    }
}

#[test]
fn c21_a_tail_is_discarded_on_request() {
    let mut splitter = LineSplitter::default();
    splitter.feed(b"a 1\nb 2", &|| ());
    assert_eq!(splitter.discard_tail(), 3);
    assert_eq!(splitter.feed(b"c 3\n", &|| ()).rows, pairs(&[("c", "3")]));
}

#[test]
fn r16_a_huge_line_is_read_between_others() {
    let huge = "x".repeat(12 << 20);
    let many = "attr payload\n".repeat(60_000);
    let text = format!("first 1\n  huge {huge} \nlast 1\n{many}");
    let mut splitter = LineSplitter::default();
    let mut rows = Vec::new();
    for piece in text.as_bytes().chunks(100_000) {
        let fed = feed(&mut splitter, piece, text.as_bytes());
        assert_eq!(
            fed.row_bytes,
            fed.rows.iter().map(|(attr, payload)| attr.len() + payload.len()).sum::<usize>()
        );
        rows.extend(fed.rows);
    }
    assert_eq!(rows.len(), 60_003);
    assert_eq!(rows[..3], pairs(&[("first", "1"), ("huge", &huge), ("last", "1")]));
}

/// CONTRACT QP13: the longest path that DONE can carry is the longest one read, however the line is
/// cut.
#[test]
fn p13_a_path_that_no_done_line_can_carry_is_skipped_with_its_length() {
    let done = |path: usize| format!("DONE {} {}", "p".repeat(path), i64::MIN).len();
    assert_eq!(done(ATTR_PATH_BYTES_MAX), crate::protocol::REQUEST_BYTES_MAX);
    let longest = "p".repeat(ATTR_PATH_BYTES_MAX);
    let payload = "v".repeat(200_000);
    let text = format!(
        "a 1\n \u{3000}{longest} {payload} \np{longest} 1\nb 2\nq{longest}{longest}{longest} 3\nc 4\n"
    );
    for size in [1_000, 70_000, 1 << 20] {
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        let (rows, skips) = read(&pieces);
        assert_eq!(rows, pairs(&[("a", "1"), (&longest, &payload), ("b", "2"), ("c", "4")]), "{size}");
        let bytes = ATTR_PATH_BYTES_MAX as u64;
        let too_long = |line, bytes| (line, SkipReason::AttrPathTooLong { bytes });
        assert_eq!(skips, [too_long(3, bytes + 1), too_long(5, 3 * bytes + 1)], "{size}");
    }
}

#[test]
fn r16_little_is_kept_of_a_line_without_an_end() {
    let white = " ".repeat(300_000);
    for start in ["path", "path payload", &white] {
        let mut splitter = LineSplitter::default();
        let piece = [b'x'; 4096];
        splitter.feed(b"a 1\n", &|| ());
        splitter.feed(start.as_bytes(), &|| ());
        let pieces = LINE_BYTES_MAX / piece.len() + 1;
        for _ in 0..pieces {
            let fed = splitter.feed(&piece, &|| ());
            assert!(fed.rows.is_empty() && splitter.tail.capacity() <= 2 * KEPT_BYTES_MAX);
        }
        let long = (start.len() + pieces * piece.len()) as u64;
        let fed = splitter.feed(b" 1\nb 2\n", &|| ());
        assert_eq!(fed.rows, pairs(&[("b", "2")]), "{start}");
        assert_eq!(fed.skips.len(), 1, "{start}");
        let reason = match start {
            "path" => SkipReason::AttrPathTooLong { bytes: long },
            _ => SkipReason::LineTooLong { bytes: long + 2 },
        };
        assert_eq!(fed.skips[0], SkippedLine { line: 2, reason }, "{}", start.trim());
    }
}

#[test]
fn c21_a_long_tail_is_discarded_and_read_again() {
    let mut splitter = LineSplitter::default();
    let text = format!("a 1\nb {}", "2".repeat(3 * KEPT_BYTES_MAX));
    for piece in text.as_bytes().chunks(KEPT_BYTES_MAX) {
        splitter.feed(piece, &|| ());
    }
    assert_eq!(splitter.discard_tail(), text.len() as u64 - 4);
    let again = format!("{text}\n");
    let fed = feed(&mut splitter, &again.as_bytes()[4..], again.as_bytes());
    assert_eq!(fed.rows.len(), 1);
    for piece in again.as_bytes()[..again.len() - 1].chunks(KEPT_BYTES_MAX) {
        splitter.feed(piece, &|| ());
    }
    let line = splitter.feed(b"\n", &|| ()).long.expect("a line to be read again");
    let (first, second) = (again.len() as u64, 2 * again.len() as u64);
    assert_eq!(line.range(), first + 4..second - 1);
    assert_eq!(line.number(), 4);
}

/// The same rule on a whole text, in plain code.
fn model(text: &[u8]) -> Pairs {
    let mut lines = vec![Vec::new()];
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\n' => lines.push(Vec::new()),
            b'\r' => {
                bytes.next_if_eq(&b'\n');
                lines.push(Vec::new());
            }
            other => lines.last_mut().expect("never empty").push(other),
        }
    }
    lines.pop();
    let decoded = lines.into_iter().filter_map(|line| String::from_utf8(line).ok());
    decoded.filter_map(|line| split(&line).ok().map(|(a, p)| (a.to_owned(), p.to_owned()))).collect()
}

proptest! {
    #[test]
    fn rows_do_not_depend_on_cuts(
        text in proptest::collection::vec(prop_oneof![
            Just(b'\n'), Just(b'\r'), Just(b' '), Just(b'a'), Just(b'b'), Just(0xc3), Just(0xa9), any::<u8>()
        ], 0..200),
        cuts in proptest::collection::vec(0usize..200, 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read(&pieces).0, model(&text));
    }
}
