//! Stencils and the configuration document: chosen, read, written.

use fastrand::Rng;
use orchestrator_producer::{
    advance::Mark,
    cursor::{Census, Cursor, Rest},
    stencil::{Ledger, Selection, State},
    store::{Store, StoreError},
};

use super::*;

/// The queries choose what the rules say, in the order of (TCN, `_id`).
#[tokio::test]
async fn selections_take_what_the_rules_say() {
    let server = MongoDb::start();
    let mut rng = Rng::with_seed(1);
    let mut numbers: Vec<u64> = (0..200).collect();
    rng.shuffle(&mut numbers);
    let some = |number| stencil(number, rng.i32(0..4), rng.i32(1..4), rng.i32(0..6));
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
        ] {
            let wanted: Vec<_> = all.iter().filter(|stencil| selection.takes(stencil)).cloned().collect();
            assert_eq!(store.count(selection).await, Ok(wanted.len() as u64), "{selection:?}");
            assert_eq!(read(store.list(selection).await.unwrap()), wanted, "{selection:?}");
        }
    }
}

/// A stencil that cannot be read is told with its name, beside those that can. The original meets a missing state, and never
/// sees a TCN that is no number.
#[tokio::test]
async fn unreadable_documents_are_named() {
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
            .map(|misread| format!("{} {} {}", misread.id, misread.field, misread.found))
            .collect();
        errors.sort();
        (read, errors)
    };
    let stateless = format!("{} state missing", id(1));
    let strict = errors(true, Selection::Open { tcn: 5 }).await;
    assert_eq!(strict, (2, vec![stateless.clone()]));
    let mended = errors(false, Selection::Unfinished { tcn: 5 }).await;
    let wordy = format!("{} TCN the text \"five\"", id(2));
    let split = format!("{} TCN the double 5", id(3));
    assert_eq!(mended, (1, vec![stateless, wordy, split]));
}

#[tokio::test]
async fn the_ledger_is_read_and_its_lack_is_told() {
    let server = MongoDb::start();
    let store = open(&server, false).await;
    let Err(StoreError::Misread(misread)) = store.ledger().await else { panic!("there is none") };
    assert_eq!((misread.collection.as_str(), misread.id.as_str()), ("stencils", "config"));
    insert(&server, "stencils", vec![config(3, 9)]).await;
    assert_eq!(store.ledger().await, Ok(Ledger { completed_tcn: 3, max_tcn: 9 }));
}

fn mark(number: u64, state: State, cursor: Option<Cursor>) -> Mark {
    Mark { id: id(number), state, cursor }
}

#[tokio::test]
async fn strict_leaves_nothing_but_what_the_original_leaves() {
    let server = MongoDb::start();
    insert(&server, "stencils", vec![config(3, 9), stencil(1, 2, 3, 0)]).await;
    let store = open(&server, true).await;
    store.mark(&mark(1, State::Started, None), None).await.unwrap();
    assert_eq!(document(&server, oid(1)).await, stencil(1, 2, 3, 1));
    store.mark(&mark(1, State::Complete, None), None).await.unwrap();
    assert_eq!(document(&server, oid(1)).await, stencil(1, 2, 3, 3));
    store.mark(&mark(99, State::Complete, None), None).await.expect("the original takes no notice");
    store.complete(3, 4, None).await.unwrap();
    assert_eq!(document(&server, "config").await, config(4, 9));
}

#[tokio::test]
async fn a_cursor_is_kept_beside_what_the_original_reads() {
    let server = MongoDb::start();
    insert(&server, "stencils", vec![stencil(1, 2, 3, 0)]).await;
    let store = open(&server, false).await;
    let census = |count| Census { count, greatest: Some(id(count)) };
    let rest = Rest::From { root: id(4), scion: id(5) };
    let cursor = Cursor::fresh(500, census(1_000), census(700), 6).advanced(3, rest);
    store.mark(&mark(1, State::Started, Some(cursor)), Some(6)).await.unwrap();
    let found = store.list(Selection::All).await.unwrap().remove(0).unwrap();
    assert_eq!((found.state, found.cursor), (State::Started, Some(cursor)));
    // A mark without a cursor leaves it.
    store.mark(&mark(1, State::NoHeadroom, None), Some(6)).await.unwrap();
    let found = store.list(Selection::All).await.unwrap().remove(0).unwrap();
    assert_eq!((found.state, found.cursor), (State::NoHeadroom, Some(cursor)));
    let mut document = document(&server, oid(1)).await;
    document.remove("orchestrator").expect("the one key of ours");
    assert_eq!(document, stencil(1, 2, 3, 2));
}

/// Who was overtaken writes nothing more, once the new holder has touched a document.
#[tokio::test]
async fn older_epochs_are_fenced_off() {
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
        let written = store.mark(&mark(1, state, None), Some(epoch)).await;
        assert_eq!(written, if fenced { Err(StoreError::Fenced) } else { Ok(()) }, "{epoch}");
    }
    assert_eq!(store.mark(&mark(9, State::Started, None), Some(9)).await, Err(StoreError::Fenced), "gone");
}
