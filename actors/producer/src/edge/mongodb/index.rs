//! Indexes that pages need. The original's one serves scions only (CONTRACT SD12, SX11).

use mongodb::bson::{Bson, Document, doc};

use super::session::Session;
use crate::store::StoreError;

/// Keys for rootstocks and for scions.
fn wanted() -> [Document; 2] {
    [doc! { "TCN": 1, "_id": 1 }, doc! { "TCN": 1, "is_good": 1, "_id": 1 }]
}

/// Missing indexes, as JSON.
pub(super) async fn missing(session: &Session, collection: &str) -> Result<Vec<String>, StoreError> {
    Ok(keys_missing(session, collection)
        .await?
        .into_iter()
        .map(|keys| Bson::Document(keys).to_string())
        .collect())
}

pub(super) async fn ensure(session: &Session, collection: &str) -> Result<(), StoreError> {
    for keys in keys_missing(session, collection).await? {
        session.create_index(collection, keys).await?;
    }
    Ok(())
}

async fn keys_missing(session: &Session, collection: &str) -> Result<Vec<Document>, StoreError> {
    let there = session.index_keys(collection).await?;
    // The numbers in an index key may have any type.
    let plain = |keys: &Document| {
        let direction = |value: &Bson| match value {
            Bson::Int32(number) => Some(f64::from(*number)),
            Bson::Int64(number) => Some(*number as f64),
            Bson::Double(number) => Some(*number),
            _ => None,
        };
        keys.iter().map(|(name, value)| (name.clone(), direction(value))).collect::<Vec<_>>()
    };
    let there: Vec<_> = there.iter().map(plain).collect();
    let serves = |keys: &Document| {
        let keys = plain(keys);
        there.iter().any(|index| index.starts_with(&keys))
    };
    Ok(wanted().into_iter().filter(|keys| !serves(keys)).collect())
}
