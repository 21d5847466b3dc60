//! Hostile pickles.

use proptest::prelude::*;

use super::read_dict;

proptest! {
    #[test]
    fn random_pickles(start in 0..3_usize, body in proptest::collection::vec(prop_oneof![
        any::<u8>(), prop::sample::select(&b"}](.)0123tdlsuaeqhjr\x85\x86\x87\x8f\x90\x94\x93Rb\x81NKXG\x88c"[..])], 0..120)) {
        let mut bytes = [&b"\x80\x04"[..], b"", b"\x80\x05}\x94(X\x06\0\0\0status\x94"][start].to_vec();
        bytes.extend(body);
        let _ = read_dict(&bytes, &["status"]);
    }
}

#[test]
fn a_pickle_cannot_fill_the_memory_or_the_stack() {
    let nested = |open: &[u8], count| [&b"\x80\x04"[..], &open.repeat(count), b"."].concat();
    for (bytes, text) in [
        (nested(b"(", 2 << 20), "more than"),
        (nested(b"N", 2 << 20), "more than"),
        (nested(b"N\x94", 2 << 20), "more than"),
        // Tuples nested a million deep.
        (
            nested(b"N\x85", 1).into_iter().chain(b"\x85".repeat(1 << 20)).chain(*b".").collect(),
            "not of a dict",
        ),
        ([&b"\x80\x04N"[..], &b"\x85".repeat(1 << 20), b"."].concat(), "not of a dict"),
        (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc.".to_vec(), "cut off"),
        (b"\x80\x04B\xff\xff\xff\xffabc.".to_vec(), "cut off"),
        (b"\x80\x09}.".to_vec(), "not a pickle"),
        (b"cos\nsystem\n(S'echo'\ntR.".to_vec(), "not of a dict"),
    ] {
        let error = read_dict(&bytes, &["status"]).expect_err("not of a dict");
        assert!(error.to_string().contains(text), "{error}");
    }
    // Nested dicts in a requested member.
    let deep =
        [&b"\x80\x04"[..], &b"}X\x06\0\0\0status".repeat(50_000), b"N", &b"s".repeat(50_000), b"."].concat();
    assert!(read_dict(&deep, &["status"]).is_ok());
}
