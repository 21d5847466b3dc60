//! Stencils and the configuration document.

use fastrand::Rng;

use super::*;
use orchestrator_producer_rules::{
    advance::StencilUpdate,
    cursor::{Cursor, Remaining, SetSummary},
    stencil::{ConfigDocument, Selection, State},
};

use crate::store::{Store, StoreError};

/// The queries select the same stencils as [`Selection::selects`], in the order of (TCN, `_id`).
#[tokio::test]
async fn queries_select_what_the_rules_say() {
    let server = MongoDb::start();
    let mut rng = Rng::with_seed(1);
    let mut numbers: Vec<u64> = (0..200).collect();
    rng.shuffle(&mut numbers);
    let some = |number| stencil(number, rng.i32(0..4), rng.i32(0..4), rng.i32(0..6));
    let documents: Vec<Document> = numbers.into_iter().map(some).collect();
    insert(&server, "stencils", documents).await;
    insert(&server, "stencils", vec![config(3, 9)]).await;
    let store = open(&server, false).await;
    let read = |found: Vec<Result<_, _>>| found.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let all = read(store.list(Selection::All).await.unwrap());
    assert_eq!(all.len(), 200);
    assert!(all.is_sorted_by_key(|stencil| (stencil.tcn, stencil.id)));
    for tcn in 0..7 {
        for selection in [
            Selection::Recovery { tcn },
            Selection::Open { tcn },
            Selection::Unfinished { tcn },
            Selection::Complete { tcn },
            Selection::LeftOut { tcn },
        ] {
            let wanted: Vec<_> = all.iter().filter(|stencil| selection.selects(stencil)).cloned().collect();
            assert_eq!(store.count(selection).await, Ok(wanted.len() as u64), "{selection:?}");
            assert_eq!(read(store.list(selection).await.unwrap()), wanted, "{selection:?}");
        }
    }
}

/// Invalid stencils are listed beside valid ones. In strict mode a missing state is invalid, and a TCN that
/// is no number is not selected.
#[tokio::test]
async fn invalid_documents_are_named() {
    let server = MongoDb::start();
    let mut stateless = stencil(1, 2, 3, 0);
    stateless.remove("state");
    let mut wordy = stencil(2, 2, 3, 0);
    wordy.insert("TCN", "five");
    let mut split = stencil(3, 2, 3, 0);
    split.insert("TCN", 5.0);
    insert(&server, "stencils", vec![stateless, wordy, split, stencil(4, 2, 3, 0)]).await;
    let errors = async |strict, selection| {
        let found = open(&server, strict).await.list(selection).await.unwrap();
        let read = found.iter().filter(|stencil| stencil.is_ok()).count();
        let mut errors: Vec<String> = found
            .into_iter()
            .filter_map(Result::err)
            .map(|invalid| format!("{} {} {}", invalid.id, invalid.field, invalid.found))
            .collect();
        errors.sort();
        (read, errors)
    };
    let stateless = format!("{} state missing", id(1));
    let strict = errors(true, Selection::Open { tcn: 5 }).await;
    assert_eq!(strict, (2, vec![stateless.clone()]));
    let resilient = errors(false, Selection::Unfinished { tcn: 5 }).await;
    let wordy = format!("{} TCN the text \"five\"", id(2));
    let split = format!("{} TCN the double 5", id(3));
    assert_eq!(resilient, (1, vec![stateless, wordy, split]));
}

#[tokio::test]
async fn a_missing_configuration_document_is_named() {
    let server = MongoDb::start();
    let store = open(&server, false).await;
    let Err(StoreError::Unavailable(failure)) = store.config_document().await else {
        panic!("there is none")
    };
    assert!(failure.reason.starts_with("collection stencils of database "), "{failure}");
    assert!(failure.help.expect("help").contains("db.stencils.insertOne({_id: \"config\", "));
    insert(&server, "stencils", vec![config(3, 9)]).await;
    assert_eq!(store.config_document().await, Ok(ConfigDocument { completed_tcn: 3, max_tcn: 9 }));
}

fn update(number: u64, state: State, cursor: Option<Cursor>) -> StencilUpdate {
    StencilUpdate { id: id(number), state, cursor }
}

#[tokio::test]
async fn strict_writes_the_same_documents_as_the_original() {
    let server = MongoDb::start();
    insert(&server, "stencils", vec![config(3, 9), stencil(1, 2, 3, 0)]).await;
    let store = open(&server, true).await;
    store.update_stencil(&update(1, State::Started, None), None).await.unwrap();
    assert_eq!(document(&server, oid(1)).await, stencil(1, 2, 3, 1));
    store.update_stencil(&update(1, State::Complete, None), None).await.unwrap();
    assert_eq!(document(&server, oid(1)).await, stencil(1, 2, 3, 3));
    store.update_stencil(&update(99, State::Complete, None), None).await.expect("the original ignores it");
    store.complete(3, 4, None, None).await.unwrap();
    assert_eq!(document(&server, "config").await, config(4, 9));
}

#[tokio::test]
async fn a_cursor_leaves_the_originals_fields_unchanged() {
    let server = MongoDb::start();
    insert(&server, "stencils", vec![stencil(1, 2, 3, 0)]).await;
    let store = open(&server, false).await;
    let summary = |count| SetSummary { count, greatest: Some(id(count)) };
    let remaining = Remaining::From { root: id(4), scion: id(5) };
    let cursor = Cursor::start(500, summary(1_000), summary(700), 6).advanced(3, remaining);
    store.update_stencil(&update(1, State::Started, Some(cursor)), Some(6)).await.unwrap();
    let found = store.list(Selection::All).await.unwrap().remove(0).unwrap();
    assert_eq!((found.state, found.cursor), (State::Started, Some(cursor)));
    // An update without a cursor keeps the present one.
    store.update_stencil(&update(1, State::NoHeadroom, None), Some(6)).await.unwrap();
    let found = store.list(Selection::All).await.unwrap().remove(0).unwrap();
    assert_eq!((found.state, found.cursor), (State::NoHeadroom, Some(cursor)));
    let mut document = document(&server, oid(1)).await;
    document.remove("orchestrator").expect("the additional key");
    assert_eq!(document, stencil(1, 2, 3, 2));
}

/// A write with an older epoch than the document's is refused.
#[tokio::test]
async fn older_epochs_are_fenced() {
    let server = MongoDb::start();
    insert(&server, "stencils", vec![stencil(1, 2, 3, 0)]).await;
    let store = open(&server, false).await;
    for (epoch, state, fenced) in [
        (5, State::Started, false),
        (5, State::NoHeadroom, false),
        (6, State::Started, false),
        (5, State::Complete, true),
        (4, State::Complete, true),
        (6, State::Complete, false),
    ] {
        let written = store.update_stencil(&update(1, state, None), Some(epoch)).await;
        assert_eq!(written, if fenced { Err(StoreError::Fenced) } else { Ok(()) }, "{epoch}");
    }
    assert_eq!(
        store.update_stencil(&update(9, State::Started, None), Some(9)).await,
        Err(StoreError::Fenced),
        "gone"
    );
}
