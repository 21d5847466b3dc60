//! The lease and the writes that it fences.

use orchestrator_producer_rules::lease::Lease;

use crate::store::{Store, StoreError};

use super::*;

fn lease(holder: &str, epoch: u64, until_ms: i64) -> Lease {
    Lease { holder: holder.to_owned(), epoch, until_ms }
}

#[tokio::test]
async fn a_lease_is_taken_only_if_unchanged() {
    let server = MongoDb::start();
    insert(&server, "stencils", vec![config(3, 9)]).await;
    let (one, other) = (open(&server, false).await, open(&server, false).await);
    assert_eq!(one.lease().await.unwrap().1, None);
    let first = lease("one", 1, 1_000);
    assert_eq!(one.take(None, &first).await, Ok(true));
    assert_eq!(other.take(None, &lease("other", 1, 1_000)).await, Ok(false), "the lease exists by now");
    assert_eq!(other.lease().await.unwrap().1, Some(first.clone()));
    // Renewed between the read and the write.
    assert_eq!(one.renew(1, 60_000).await, Ok(true));
    let second = lease("other", 2, 2_000);
    assert_eq!(other.take(Some(&first), &second).await, Ok(false));
    let (now_ms, seen) = other.lease().await.unwrap();
    let seen = seen.unwrap();
    assert!((59_000..=60_000).contains(&(seen.until_ms - now_ms)), "{seen:?} at {now_ms}");
    assert_eq!(other.take(Some(&seen), &second).await, Ok(true));
    assert_eq!(one.renew(1, 60_000).await, Ok(false), "it is lost");
    assert_eq!(other.renew(2, 0).await, Ok(true));
    assert_eq!(one.lease().await.unwrap().1, Some(lease("other", 2, 0)), "released");
}

#[tokio::test]
async fn one_of_several_concurrent_producers_gets_the_lease() {
    let server = MongoDb::start();
    insert(&server, "stencils", vec![config(3, 9)]).await;
    let mut stores = Vec::new();
    for _ in 0..8 {
        stores.push(open(&server, false).await);
    }
    let attempts = stores.iter().enumerate().map(|(number, store)| async move {
        store.take(None, &lease(&format!("p{number}"), 1, 1_000)).await.unwrap()
    });
    let taken = futures_util::future::join_all(attempts).await;
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 1, "{taken:?}");
}

#[tokio::test]
async fn only_the_holder_completes_a_tcn() {
    let server = MongoDb::start();
    insert(&server, "stencils", vec![config(3, 9)]).await;
    let store = open(&server, false).await;
    assert_eq!(store.complete(3, 4, None, Some(1)).await, Err(StoreError::Fenced), "there is no lease");
    store.take(None, &lease("one", 2, 1_000)).await.unwrap();
    assert_eq!(store.complete(3, 4, None, Some(1)).await, Err(StoreError::Fenced), "of an older epoch");
    for _ in 0..2 {
        assert_eq!(store.complete(3, 4, None, Some(2)).await, Ok(()), "also when the first reply was lost");
    }
    assert_eq!(store.complete(7, 8, None, Some(2)).await, Err(StoreError::Fenced), "another TCN is complete");
    let config = document(&server, "config").await;
    assert_eq!(number(&config, "current_completed_tcn"), Some(4));
}
