//! Creation of the schema, and its use by the original's programs.

use orchestrator_harness::Postgres;

use super::{connect, create_database, id, sample_rows};
use crate::{
    edge::postgres::{Flavor, PostgresStore, init},
    listing::Listing,
    method::Relation,
    row::{RelationRow, Rows},
    store::{Query, Store, StoreError, StoreReader},
    tests::conformance::listed,
};

#[tokio::test]
async fn a_database_is_created_once_and_keeps_its_flavor() {
    for flavor in Flavor::ALL {
        let dsn = create_database("made", flavor).await;
        init(&dsn, flavor).await.expect("the second time changes nothing");
        assert_eq!(connect(&dsn).await.flavor(), flavor);
        for other in Flavor::ALL.into_iter().filter(|other| *other != flavor) {
            let refused = init(&dsn, other).await.expect_err("another flavor");
            assert!(
                matches!(&refused, StoreError::Refused(text) if text.contains(flavor.name())),
                "{refused}"
            );
        }
        let rows =
            Postgres::shared().script(&dsn, "SELECT version, description, swh_get_dbflavor() FROM dbversion");
        assert_eq!(rows, format!("1|Work In Progress|{flavor}"));
    }
}

#[tokio::test]
async fn other_databases_are_not_changed() {
    let empty = Postgres::shared().create_database("empty");
    assert!(matches!(PostgresStore::connect(&empty).await, Err(StoreError::Unavailable(_))));
    Postgres::shared().script(&empty, "CREATE TABLE content (x int)");
    assert!(matches!(init(&empty, Flavor::WithPath).await, Err(StoreError::Refused(_))));

    let newer = create_database("newer", Flavor::WithPath).await;
    Postgres::shared().script(&newer, "INSERT INTO dbversion VALUES (2, now(), 'later')");
    assert!(matches!(PostgresStore::connect(&newer).await, Err(StoreError::Refused(_))));
    assert!(matches!(init(&newer, Flavor::WithPath).await, Err(StoreError::Refused(_))));
    assert!(matches!(PostgresStore::connect("no address").await, Err(StoreError::Refused(_))));
}

#[tokio::test]
async fn the_original_functions_store_the_same_rows() {
    for flavor in Flavor::ALL {
        let mut ours = connect(&create_database("ours", flavor).await).await;
        ours.write(&sample_rows()).await.expect("written");
        let dsn = create_database("theirs", flavor).await;
        let mut theirs = connect(&dsn).await;
        let is_relation = |group: &&Rows| matches!(group, Rows::Relations(..));
        let entities: Vec<Rows> = sample_rows().into_iter().filter(|group| !is_relation(&group)).collect();
        theirs.write(&entities).await.expect("written");
        for group in sample_rows().iter().filter(is_relation) {
            let Rows::Relations(relation, rows) = group else { unreachable!("filtered") };
            // Without paths the original stores a repeated row twice (CONTRACT PX10), so duplicates
            // are removed before the comparison.
            Postgres::shared().script(&dsn, &original_add_statements(*relation, rows));
        }
        for listing in Relation::ALL.map(|relation| Listing::Relation(relation, None)) {
            let expected = listed(listing, async |query| ours.read(&query).await.expect("a page")).await;
            let found = listed(listing, async |query| theirs.read(&query).await.expect("a page")).await;
            assert_eq!(found, expected, "{flavor} {listing:?}");
        }
        let occurrences = Query::FindAll { id: id(1), limit: None };
        let expected = ours.read(&occurrences).await.expect("an answer");
        assert_eq!(theirs.read(&occurrences).await.expect("an answer"), expected, "{flavor}");
        let count = |sql: &str| Postgres::shared().script(&dsn, &format!("SELECT count(*) FROM {sql}"));
        let get = "swh_provenance_relation_get('content_in_directory', 'content', 'directory', ";
        let (one, two) = (id(1), id(12));
        assert_eq!(count(&format!("{get}'filter-src', ARRAY['\\x{one}'::bytea])")), "2", "{flavor}");
        assert_eq!(
            count(&format!("{get}'filter-dst', ARRAY['\\x{two}'::bytea]::sha1_git[])")),
            "2",
            "{flavor}"
        );
        assert_eq!(count(&format!("{get}'no-filter', ARRAY[]::sha1_git[])")), "3", "{flavor}");
        let first = Postgres::shared().script(
            &dsn,
            &format!("SELECT revision FROM swh_provenance_content_find_first('\\x{one}'::bytea)"),
        );
        assert_eq!(first, format!("\\x{}", id(21)), "{flavor}");
        assert_eq!(count(&format!("swh_provenance_content_find_all('\\x{one}', 3)")), "3", "{flavor}");
        let all = if flavor.has_paths() { "5" } else { "4" };
        assert_eq!(
            count(&format!("swh_provenance_content_find_all('\\x{one}'::bytea, NULL)")),
            all,
            "{flavor}"
        );
    }
}

/// A transaction of the original: a temporary table, its rows, and the function that moves them.
fn original_add_statements(relation: Relation, rows: &[RelationRow]) -> String {
    let values: Vec<String> = rows
        .iter()
        .map(|row| {
            let hex = |path: &bytes::Bytes| path.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let path =
                row.path.as_ref().map_or("NULL".to_owned(), |path| format!("'\\x{}'::bytea", hex(path)));
            format!("('\\x{}'::bytea, '\\x{}'::bytea, {path})", row.src, row.dst)
        })
        .collect();
    format!(
        "BEGIN; SELECT swh_mktemp_relation_add(); INSERT INTO tmp_relation_add VALUES {};
SELECT swh_provenance_relation_add_from_temp('{}', '{}', '{}'); COMMIT",
        values.join(","),
        relation.value(),
        relation.source().value(),
        relation.destination().value()
    )
}
