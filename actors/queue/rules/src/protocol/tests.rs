//! Tests of the request parser.

use proptest::prelude::*;

use super::*;
use crate::storage::HandoutId;

/// All requests, and the error that ends the connection, if any.
fn parse_pieces(pieces: &[&[u8]]) -> (Vec<Request>, Option<ProtocolError>) {
    let mut parser = RequestParser::default();
    let mut requests = Vec::new();
    for piece in pieces {
        parser.space().extend_from_slice(piece);
        loop {
            match parser.next_request() {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    match parser.last_request() {
        Ok(last) => {
            requests.extend(last);
            (requests, None)
        }
        Err(error) => (requests, Some(error)),
    }
}

fn done(attr_path: &str, exit_code: i64) -> Request {
    Request::Done { attr_path: attr_path.to_owned(), exit_code }
}

fn one(line: &[u8]) -> Result<Request, ProtocolError> {
    match parse_pieces(&[line]) {
        (mut requests, None) if requests.len() == 1 => Ok(requests.remove(0)),
        (_, error) => Err(error.expect("one request or an error")),
    }
}

#[test]
fn p01_p02_pipelined_and_bytewise_requests_parse_alike() {
    let text = b"READY\nDONE a 0\nREADY\n";
    let expected = (vec![Request::Ready, done("a", 0), Request::Ready], None);
    assert_eq!(parse_pieces(&[text]), expected);
    assert_eq!(parse_pieces(&text.chunks(1).collect::<Vec<_>>()), expected);
}

#[test]
fn p03_an_unknown_request_is_an_error() {
    let bad: [&[u8]; 12] = [
        b"\n",
        b"READY\r\n",
        b"READY \n",
        b" READY\n",
        b"ready\n",
        b"READY",
        b"DONE\n",
        b"DONE",
        b"done a 0\n",
        b"JOB a 1\n",
        b"READY\0\n",
        b"\xff\n",
    ];
    for line in bad {
        assert_eq!(parse_pieces(&[line]), (vec![], Some(ProtocolError::NotARequest)), "{line:?}");
    }
}

#[test]
fn p04_nothing_after_a_bad_line_is_executed() {
    let (requests, error) = parse_pieces(&[b"READY\nnonsense\nDONE a 0\n"]);
    assert_eq!((requests, error), (vec![Request::Ready], Some(ProtocolError::NotARequest)));
}

#[test]
fn p05_a_done_with_an_invalid_code_or_path_is_an_error() {
    let bad: [&[u8]; 14] = [
        b"DONE a\n",
        b"DONE a \n",
        b"DONE a  0\n",
        b"DONE a x\n",
        b"DONE a 1.0\n",
        b"DONE a 0x1\n",
        b"DONE a 1__0\n",
        b"DONE a _1\n",
        b"DONE a 1_\n",
        b"DONE a -\n",
        b"DONE a +-1\n",
        b"DONE a 9223372036854775808\n",
        b"DONE a -9223372036854775809\n",
        b"DONE \n",
    ];
    for line in bad {
        assert_eq!(one(line), Err(ProtocolError::BadExitCode), "{line:?}");
    }
    assert_eq!(one(b"DONE \xff 0\n"), Err(ProtocolError::AttrNotUtf8));
    assert_eq!(one(b"DONE a \xd9\xa3\n"), Err(ProtocolError::BadExitCode), "only ascii digits");
}

#[test]
fn p06_done_codes_are_parsed_like_python() {
    let good: [(&[u8], &str, i64); 14] = [
        (b"DONE a 0\n", "a", 0),
        (b"DONE a 0", "a", 0),
        (b"DONE a 1\r\n", "a", 1),
        (b"DONE a \t1\x0b\x0c\n", "a", 1),
        (b"DONE a +1\n", "a", 1),
        (b"DONE a -1\n", "a", -1),
        (b"DONE a 0007\n", "a", 7),
        (b"DONE a 1_000\n", "a", 1000),
        (b"DONE a 0_1\n", "a", 1),
        (b"DONE a 2 more fields\n", "a", 2),
        (b"DONE a 3 \xff\n", "a", 3),
        (b"DONE  4\n", "", 4),
        (b"DONE a 9223372036854775807\n", "a", i64::MAX),
        (b"DONE \xc3\xa4\t -9223372036854775808\n", "\u{e4}\t", i64::MIN),
    ];
    for (line, attr_path, code) in good {
        assert_eq!(one(line), Ok(done(attr_path, code)), "{line:?}");
    }
}

#[test]
fn p09_65536_bytes_are_accepted_and_one_more_is_not() {
    for (spare, expected) in [(0, true), (1, false)] {
        let attr = "a".repeat(REQUEST_BYTES_MAX - "DONE  0".len() + spare);
        for end in ["\n", ""] {
            let line = format!("DONE {attr} 0{end}");
            let whole = parse_pieces(&[line.as_bytes()]);
            assert_eq!(whole, parse_pieces(&line.as_bytes().chunks(1000).collect::<Vec<_>>()));
            match expected {
                true => assert_eq!(whole, (vec![done(&attr, 0)], None)),
                false if end == "\n" => assert_eq!(whole, (vec![], Some(ProtocolError::TooLong))),
                false => assert_eq!(whole.1, Some(ProtocolError::TooLong)),
            }
        }
    }
}

#[test]
fn an_idle_connection_keeps_a_small_buffer() {
    let mut parser = RequestParser::default();
    parser.space().extend_from_slice(format!("DONE {} 0\n", "a".repeat(60_000)).as_bytes());
    assert!(parser.next_request().is_ok_and(|request| request.is_some()));
    assert!(parser.space().capacity() <= KEPT_BYTES);
}

#[test]
fn replies_are_lines() {
    let job = Job { attr_path: "a".into(), payload: " 1  2".into(), handout: HandoutId(1) };
    let mut out = Vec::new();
    encode_reply(Some(&job), &mut out);
    encode_reply(None, &mut out);
    assert_eq!(out, b"JOB a  1  2\nNOJOBS\n");
}

proptest! {
    #[test]
    fn requests_do_not_depend_on_cuts(
        lines in proptest::collection::vec(prop_oneof![
            Just(b"READY\n".to_vec()), Just(b"DONE a 0\n".to_vec()), Just(b"DONE b -1 c\r\n".to_vec()),
            Just(b"DONE x 1".to_vec()), Just(b"READY".to_vec()), proptest::collection::vec(any::<u8>(), 0..30),
        ], 0..12),
        cuts in proptest::collection::vec(0usize..300, 0..10),
    ) {
        let text = lines.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        prop_assert_eq!(parse_pieces(&pieces), parse_pieces(&[&text]));
    }

    #[test]
    fn every_exit_code_round_trips(code: i64) {
        prop_assert_eq!(one(format!("DONE a {code}\n").as_bytes()), Ok(done("a", code)));
    }
}
