//! Arguments of the console's verbs.

use serde_json::json;

use super::*;

fn parsed(args: Value) -> Result<AddArguments, ConsoleError> {
    add(serde_json::from_value(args).expect("arguments"))
}

#[test]
fn rows_are_sorted_by_dependency_and_keep_their_positions() {
    let id = "20329687bb9c1231a7e05afe86160343ad49b494";
    let arguments = parsed(json!({ "batch": 7, "rows": [
        { "add": "content_in_revision", "src": id, "dst": id, "path": "a" },
        { "add": "content", "id": id },
        { "add": "origin", "url": "https://nul\0" },
        { "add": "origin", "url": "https://a/b" },
        "what",
        { "add": "content", "id": id },
    ] }))
    .unwrap();
    let positions: Vec<_> = arguments.groups.iter().map(|group| group.positions.as_slice()).collect();
    assert_eq!(positions, [&[3][..], &[1, 5], &[0]]);
    assert_eq!(arguments.groups[1].rows.len(), 2);
    assert_eq!(arguments.bad.iter().map(|bad| bad.index).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(arguments.batch, Some(7));
}

#[test]
fn invalid_arguments_are_refused() {
    for args in [json!({ "rows": [], "batch": 0 }), json!({ "rows": [], "batch": 10_001 })] {
        assert!(matches!(parsed(args.clone()), Err(ConsoleError::BadArguments(_))), "{args}");
    }
    assert_eq!(parsed(json!({ "rows": [] })).unwrap().batch, None);
}
