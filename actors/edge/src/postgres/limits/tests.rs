//! Streams of messages that violate limits.

use proptest::prelude::*;

use super::*;

const ROW_MAX: u32 = 1 << 20;
const ANSWER_MAX: u64 = 64 << 20;

fn message(tag: u8, body: usize) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend((body as u32 + LENGTH).to_be_bytes());
    bytes.resize(HEADER + body, b'E');
    bytes
}

fn budget() -> Arc<Budget> {
    let budget = Budget::new(ROW_MAX, ANSWER_MAX);
    budget.renew();
    budget
}

/// Follows `bytes` in pieces that end at `cuts`.
fn follow(bytes: &[u8], cuts: &[usize], budget: &Arc<Budget>) -> Result<ServerLimit, Excess> {
    let mut limit = ServerLimit::new(budget.clone());
    let mut started = 0;
    for end in cuts.iter().copied().chain([bytes.len()]) {
        let end = end.clamp(started, bytes.len());
        limit.follow(&bytes[started..end])?;
        started = end;
    }
    Ok(limit)
}

#[test]
fn an_invalid_length_is_refused_with_the_message_type() {
    for (bytes, db_error) in [
        (b"D\x7f\xff\xff\xff".as_slice(), "DataRow ('D') of 2147483647 bytes: 4 to 1048576 are accepted"),
        (b"E\x00\x01\x00\x01", "ErrorResponse ('E') of 65537 bytes"),
        (b"N\xff\xff\xff\xff", "NoticeResponse ('N') of -1 bytes"),
        (b"Z\0\0\0\x03", "ReadyForQuery ('Z') of 3 bytes"),
        (b"HTTP/1.1", "a message of another protocol ('H'), which was not asked for"),
        (b"\x80\0\0\0\x04", "('\\u{80}'), which was not asked for"),
    ] {
        let error = follow(bytes, &[], &budget()).expect_err(db_error).to_string();
        assert!(error.contains(db_error), "{error}");
    }
    assert!(follow(b"D\0\x10\0\0", &[], &budget()).is_ok(), "a row at the limit");
}

#[test]
fn answers_and_notices_are_limited_by_request() {
    let budget = budget();
    let row = message(b'D', ROW_MAX as usize - 4);
    let mut limit = ServerLimit::new(budget.clone());
    let fit = ANSWER_MAX / row.len() as u64;
    for _ in 0..fit {
        limit.follow(&row).expect("within the answer");
    }
    let notice = message(b'N', 1_000);
    limit.follow(&notice).expect("notices are counted by themselves");
    assert_eq!(limit.follow(&row), Err(Excess::Answer(ANSWER_MAX)));
    budget.renew();
    let mut limit = ServerLimit::new(budget.clone());
    limit.follow(&row).expect("another request");
    let flood = (0..2_000).try_for_each(|_| limit.follow(&notice));
    assert_eq!(flood, Err(Excess::Unasked(b'N')));
}

proptest! {
    #[test]
    fn a_stream_in_any_pieces_is_parsed_alike(
        messages in proptest::collection::vec((prop::sample::select(&b"123ACDEIKNRSTZnst"[..]), 0_usize..300), 0..40),
        mut cuts in proptest::collection::vec(0_usize..12_000, 0..60),
        bad in any::<bool>(),
    ) {
        let mut bytes: Vec<u8> = messages.iter().flat_map(|&(tag, body)| message(tag, body)).collect();
        let length = bytes.len();
        if bad {
            bytes.extend(b"D\x80\0\0\0and more");
        }
        cuts.sort_unstable();
        let budget = budget();
        let outcome = follow(&bytes, &cuts, &budget);
        if bad {
            prop_assert_eq!(outcome.err(), Some(Excess::Length { tag: b'D', length: i32::MIN, max: ROW_MAX }));
        } else {
            let limit = outcome.expect("all are within the limits");
            prop_assert_eq!((limit.seen, limit.rest), (0, 0));
        }
        let spent = ANSWER_MAX + UNASKED_MAX - budget.answer.load(Relaxed) - budget.unasked.load(Relaxed);
        prop_assert_eq!(spent, length as u64);
    }

    #[test]
    fn any_bytes_get_the_same_result_in_one_piece_and_byte_by_byte(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let every: Vec<usize> = (0..bytes.len()).collect();
        let (whole, single) = (follow(&bytes, &[], &budget()), follow(&bytes, &every, &budget()));
        prop_assert_eq!(whole.err(), single.err());
    }
}
