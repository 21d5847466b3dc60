//! Valid and invalid documents.

use super::*;

fn whole() -> Document {
    doc! { "_id": ObjectId::from_bytes([7; 12]), "TCN": 5, "rootstock_tcn": 2_i64, "scion_tcn": 3, "state": 0, "more": "x" }
}

#[test]
fn integers_of_both_sizes_are_read_and_other_fields_ignored() {
    let stencil = stencil("s", &whole(), false).unwrap();
    assert_eq!((stencil.tcn, stencil.rootstock_tcn, stencil.scion_tcn, stencil.cursor), (5, 2, 3, None));
}

/// Texts of an invalid document are shown escaped and cut, since they may have 16 MiB.
#[test]
fn an_error_text_is_short_and_escaped() {
    let long = "\u{202e}".repeat(1_000_000);
    let nested = doc! { "a": vec![Bson::String(long.clone()); 3] };
    for id in
        [Bson::String(long.clone()), Bson::Document(nested), Bson::Array(vec![Bson::String(long.clone())])]
    {
        let found = doc! { "_id": id, "TCN": long.clone() };
        let invalid = stencil("stencils", &found, false).unwrap_err().to_string();
        assert!(invalid.len() < 600 && !invalid.contains('\u{202e}'), "{} bytes", invalid.len());
    }
}

#[test]
fn an_error_names_document_field_and_value() {
    for (field, value, found) in [
        ("TCN", Some(Bson::Double(5.0)), "the double 5"),
        ("TCN", Some(Bson::from("5")), "the text \"5\""),
        ("rootstock_tcn", Some(Bson::Double(2.5)), "the double 2.5"),
        ("scion_tcn", Some(Bson::Null), "null"),
        ("state", None, "missing"),
        ("state", Some(Bson::Boolean(true)), "the boolean true"),
        ("_id", Some(Bson::Int32(4)), "the integer 4"),
        ("orchestrator", Some(Bson::Int32(4)), "the integer 4"),
    ] {
        let mut document = whole();
        match value {
            Some(value) => document.insert(field, value),
            None => document.remove(field),
        };
        let error = stencil("stencils", &document, false).unwrap_err();
        let id = if field == "_id" { "4" } else { "070707070707070707070707" };
        assert_eq!((error.field, error.found.as_str(), error.id.as_str()), (field, found, id));
        let text = error.to_string();
        assert!(
            text.starts_with(&format!(
                "collection stencils, document {id}: field {field} is {found} instead of "
            )),
            "{text}"
        );
    }
}

/// The original reads neither the TCN nor the cursor of a stencil.
#[test]
fn strict_reads_the_fields_of_the_original() {
    let mut document = whole();
    document.insert("TCN", 5.0);
    document.insert("orchestrator", "nonsense");
    assert_eq!(stencil("s", &document, true).map(|stencil| (stencil.tcn, stencil.cursor)), Ok((5, None)));
    document.insert("state", 0.0);
    assert_eq!(stencil("s", &document, true).unwrap_err().field, "state");
}

#[test]
fn a_written_cursor_is_read() {
    let summary = |count, greatest| SetSummary { count, greatest };
    let fresh = Cursor::start(500, summary(1_000, Some(Id([9; 12]))), summary(0, None), 3);
    let remaining = Remaining::From { root: Id([1; 12]), scion: Id([2; 12]) };
    for written in [
        fresh,
        fresh.advanced(7, remaining),
        fresh.advanced(7, Remaining::Nothing).resumed(u64::from(u32::MAX)),
    ] {
        let mut document = whole();
        document.insert("orchestrator", doc! { "epoch": 3_i64, "cursor": cursor(&written) });
        assert_eq!(stencil("s", &document, false).unwrap().cursor, Some(written));
    }
}

#[test]
fn an_invalid_cursor_field_is_named() {
    let cursor = cursor(&Cursor::start(500, SetSummary::default(), SetSummary::default(), 3));
    for (field, value) in
        [("page_size", Bson::Int64(-1)), ("attempt", Bson::Int64(1 << 40)), ("root", Bson::from("x"))]
    {
        let mut damaged = cursor.clone();
        damaged.insert(field, value);
        let mut document = whole();
        document.insert("orchestrator", doc! { "cursor": damaged });
        let error = stencil("s", &document, false).unwrap_err();
        assert_eq!(error.field, format!("orchestrator.cursor.{field}"));
    }
}

#[test]
fn the_configuration_document_and_its_lease_are_read() {
    let mut config = doc! { "_id": "config", "current_completed_tcn": 1, "max_tcn": 26_i64 };
    assert_eq!(config_document("s", &config), Ok(ConfigDocument { completed_tcn: 1, max_tcn: 26 }));
    assert_eq!(lease("s", &config), Ok(None));
    config.insert("orchestrator", doc! { "lease": { "holder": "a", "epoch": 4_i64, "until_ms": 5_i64 } });
    assert_eq!(lease("s", &config), Ok(Some(Lease { holder: "a".to_owned(), epoch: 4, until_ms: 5 })));
    config.insert("max_tcn", "26");
    let error = config_document("s", &config).unwrap_err().to_string();
    assert!(error.contains("document config: field max_tcn is the text \"26\""), "{error}");
}

#[test]
fn numbers_have_the_shortest_type() {
    assert_eq!(number(26), Bson::Int32(26));
    assert_eq!(number(1 << 40), Bson::Int64(1 << 40));
}
