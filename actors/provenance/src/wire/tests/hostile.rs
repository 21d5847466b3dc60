//! Truncated, damaged and hostile bodies.

use super::*;

fn error(hex: &str) -> WireError {
    let body = unhex(hex);
    let error = decode(Method::ContentAdd, &body).unwrap_err();
    assert_eq!(excerpt(&body, &[0]), Err(error), "{hex}");
    error
}

#[test]
fn a_body_is_one_map_with_an_array_of_data() {
    for (hex, expected) in [
        ("", WireError::NotMsgpack),
        ("c1", WireError::NotMsgpack),
        ("81", WireError::NotMsgpack),
        ("81a464617461", WireError::NotMsgpack),
        ("81a46461746192", WireError::NotMsgpack),
        ("81a464617461dd", WireError::NotMsgpack),
        ("81a46461746191c414", WireError::NotMsgpack),
        ("81a464617461 91 c1", WireError::NotMsgpack),
        ("c0", WireError::NotAMap),
        ("90", WireError::NotAMap),
        ("91", WireError::NotMsgpack),
        ("80", WireError::NoData),
        ("81a1 78 90", WireError::NoData),
        ("81c404 64617461 90", WireError::NoData),
        ("81a464617461c0", WireError::DataNotArray),
        ("81a46461746180", WireError::DataNotArray),
        ("81a46461746190c0", WireError::TrailingBytes(1)),
        ("80c0c0", WireError::TrailingBytes(2)),
    ] {
        assert_eq!(error(hex), expected, "{hex}");
    }
}

#[test]
fn a_body_with_too_many_items_is_refused() {
    let body = |count: u32| format!("81a464617461 dd{count:08x} {}", "c0".repeat(count as usize));
    assert_eq!(error(&body(ITEMS_MAX + 1)), WireError::TooManyItems(ITEMS_MAX + 1));
    let most = decode(Method::ContentAdd, &unhex(&body(ITEMS_MAX))).unwrap();
    assert_eq!(most.malformed.len(), ITEMS_MAX as usize);
}

#[test]
fn other_keys_are_ignored_and_the_last_data_counts() {
    let item = format!("91c414{}", "07".repeat(20));
    for hex in [
        format!("81a464617461 91{item}"),
        format!("82a178 81c0 92c2cb0000000000000000 a464617461 91{item}"),
        format!("82 a464617461 91{item} 05 d501aabb"),
        format!("82 a464617461 90 a464617461 91{item}"),
        format!("df00000001 d904 64617461 dd00000001{item}"),
    ] {
        let decoded = decode(Method::ContentAdd, &unhex(&hex)).unwrap();
        assert_eq!(decoded.rows, Rows::Contents(vec![(Sha1Git([7; 20]), None)]), "{hex}");
        assert_eq!(excerpt(&unhex(&hex), &[0]), Ok(unhex(&format!("81a464617461 91{item}"))));
    }
}

#[test]
fn announced_lengths_beyond_the_body_reserve_no_memory() {
    for hex in [
        "81a464617461 ddffffffff",
        "81a464617461 ddffffffff 91c0",
        "81a464617461 91 ddffffffff",
        "81a464617461 91 dfffffffff",
        "81a464617461 91 c6ffffffff00",
        "81a464617461 91 92 c6ffffffff",
        "81a464617461 91 c9ffffffff",
        "81a464617461 91 dbffffffff",
        "dfffffffff",
    ] {
        assert_eq!(error(hex), WireError::NotMsgpack, "{hex}");
    }
}

#[test]
fn deep_nesting_uses_no_stack() {
    let deep = [&unhex("81a464617461 91")[..], &[0x91; 1 << 20], &[0xc0]].concat();
    let decoded = decode(Method::RevisionAdd, &deep.into()).unwrap();
    assert_eq!(decoded.malformed.len(), 1);
    assert_eq!(decode(Method::RevisionAdd, &vec![0x81; 1 << 20].into()), Err(WireError::NotMsgpack));
}

/// Decodes a body by every function and checks that the results agree.
fn read(method: Method, body: &Bytes) -> Result<(), TestCaseError> {
    _ = decode_ack(body);
    let decoded = match decode(method, body) {
        Ok(decoded) => decoded,
        Err(error) => {
            prop_assert_eq!(excerpt(body, &[0]), Err(error));
            return Ok(());
        }
    };
    let good: Vec<u32> = (0..decoded.rows.len() as u32).map(|row| decoded.positions.of(row)).collect();
    let bad: Vec<u32> = decoded.malformed.iter().map(|item| item.position).collect();
    let mut all = [&good[..], &bad[..]].concat();
    all.sort_unstable();
    prop_assert!(all.iter().copied().eq(0..all.len() as u32));
    let part = decode(method, &excerpt(body, &good).unwrap()).unwrap();
    prop_assert_eq!((part.rows, part.malformed.len()), (decoded.rows, 0));
    let part = decode(method, &excerpt(body, &bad).unwrap()).unwrap();
    prop_assert!(part.rows.is_empty());
    prop_assert_eq!(part.malformed.len(), bad.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_cause_no_panic(
        method in prop::sample::select(Method::ALL.to_vec()),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        framed in any::<bool>(),
    ) {
        let head = unhex("81a464617461");
        read(method, &if framed { [&head[..], &bytes].concat().into() } else { Bytes::from(bytes) })?;
    }

    #[test]
    fn damaged_bodies_cause_no_panic(
        rows in rows(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..3, any::<u8>()), 1..5),
    ) {
        let mut body = encode(&rows).to_vec();
        for (at, kind, byte) in damage {
            let at = at.index(body.len());
            match kind {
                0 => body[at] = byte,
                1 => body.insert(at, byte),
                _ if body.len() > 1 => _ = body.remove(at),
                _ => {}
            }
        }
        read(rows.method(), &body.into())?;
    }

    #[test]
    fn a_truncated_body_is_refused(rows in rows(), at in any::<prop::sample::Index>()) {
        let body = encode(&rows);
        let cut = body.slice(..at.index(body.len()));
        prop_assert_eq!(decode(rows.method(), &cut), Err(WireError::NotMsgpack));
    }
}
