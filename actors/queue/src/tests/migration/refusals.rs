//! Refusals: of a migration before it begins, and of a start on a database with an unfinished migration.

use super::*;
use orchestrator_queue_sqlite::SqliteStore;

fn reason<T>(refused: Result<T, StorageError>) -> String {
    match refused {
        Err(StorageError { kind: StorageErrorKind::NotMigrated, text, .. }) => text,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is not refused"),
    }
}

/// Text of the error of `open`, once no process that a test is starting has the lock, and the server has seen
/// the end of former sessions.
fn error<T>(open: impl Fn() -> Result<T, StorageError>) -> String {
    wait_for("the lock of the store", || match open() {
        Err(StorageError { kind: StorageErrorKind::Locked, .. }) => None,
        Err(error) => Some(error.to_string()).filter(|error| !error.contains("is in use")),
        Ok(_) => panic!("it is not refused"),
    })
}

/// A stopped queue with two jobs, and a schema without rows.
fn sides() -> (TestStore, TestStore) {
    let mut queue = TestStore::new();
    feed(&mut queue, "f", 1, &[("a", "1"), ("b", "1")]);
    queue.close();
    let mut schema = TestStore::of(Kind::Postgres, Options::default());
    schema.close();
    (queue, schema)
}

#[test]
fn d18_a_queue_in_use_is_neither_source_nor_target() {
    let (mut queue, mut schema) = sides();
    queue.reopen(Options::default());
    assert!(matches!(
        SqliteSource::open(&queue.path()),
        Err(StorageError { kind: StorageErrorKind::Locked, .. })
    ));
    assert!(matches!(
        SqliteTarget::open(&queue.path()),
        Err(StorageError { kind: StorageErrorKind::Locked, .. })
    ));
    schema.reopen(Options::default());
    let settings = schema.settings("two");
    for refused in
        [reason(open_target(&settings)), reason(PostgresSource::open(&settings.address, &settings.schema))]
    {
        assert!(refused.contains("is in use by the instance one on host here: stop it"), "{refused}");
    }
    schema.close();
    let source = postgres_source(&settings);
    let refused = try_place(&settings).unwrap_err().to_string();
    assert!(refused.contains("lock timeout"), "a start waits while the source is read: {refused}");
    drop(source);
    place_of(&settings);
}

#[test]
fn d18_a_target_with_rows_is_refused() {
    let (queue, mut schema) = sides();
    schema.reopen(Options::default());
    feed(&mut schema, "f", 1, &[("a", "1")]);
    schema.close();
    let settings = schema.settings("one");
    let refused = error(|| open_target(&settings));
    assert!(refused.contains("has rows in fetcher: name another one"), "{refused}");
    let before = fs::read(queue.path()).unwrap();
    let refused = error(|| SqliteTarget::open(&queue.path()));
    assert!(refused.contains("its table fetchers has rows"), "{refused}");
    assert!(fs::read(queue.path()).unwrap() == before, "it has changed");
}

#[test]
fn d18_an_unfinished_target_is_no_queue_and_is_filled_anew() {
    let (queue, schema) = sides();
    let settings = schema.settings("one");
    let mut other = TestStore::new();
    feed(&mut other, "other", 3, &[("c", "2")]);
    other.close();

    let mut target = postgres_target(&settings);
    let mut half = Interrupted { target: &mut target, left: 3 };
    assert_eq!(reason(migrate(&mut sqlite_source(&queue.path()), &mut half, &names())), "killed");
    drop(target);
    let unfinished =
        format!("schema {} has an unfinished migration: finish it with the command", schema.schema);
    assert_eq!(error(|| try_place(&settings)), unfinished);
    assert_eq!(error(|| PostgresSource::open(&settings.address, &settings.schema)), unfinished);
    let of_other = to_postgres(&other.path(), &settings, &[]);
    assert_eq!(of_other.tables[0].1, 1, "what the other migration wrote is gone: {:?}", of_other.tables);
    assert_eq!(schema.texts("SELECT name FROM fetcher"), ["other"]);

    let mut full = TestStore::of(Kind::Postgres, Options::default());
    full.close();
    let full = full.settings("one");
    to_postgres(&queue.path(), &full, &[]);
    let path = schema.path();
    let mut target = sqlite_target(&path);
    let mut half = Interrupted { target: &mut target, left: 3 };
    assert_eq!(reason(migrate(&mut postgres_source(&full), &mut half, &names())), "killed");
    drop(target);
    let unfinished =
        format!("database {} has an unfinished migration: finish it with the command", path.display());
    assert_eq!(error(|| SqliteStore::open(&path, Options::default())), unfinished);
    assert_eq!(error(|| SqliteSource::open(&path)), unfinished);
    to_sqlite(&full, &path, &[]);
    wait_for("the lock of the database", || SqliteStore::open(&path, Options::default()).ok());
}

#[test]
fn d18_what_postgresql_cannot_store_is_refused_with_its_number() {
    let (mut queue, schema) = sides();
    queue.reopen(Options::default());
    let long = "x".repeat(2_001);
    feed(&mut queue, "g", 1, &[(&long, "1"), ("nul", "a\0b"), ("fits", "1")]);
    queue.close();
    let mut target = postgres_target(&schema.settings("one"));
    let refused = reason(migrate(&mut sqlite_source(&queue.path()), &mut target, &names()));
    assert!(refused.starts_with("2 rows of source cannot be stored in target: "), "{refused}");
    assert!(refused.contains(" in row"), "{refused}");
    assert_eq!(schema.number("SELECT count(*) FROM property WHERE name = 'migration'"), 0);
}

#[test]
fn d18_a_database_that_another_program_changed_is_refused() {
    let (queue, _) = sides();
    let change = |sql: &str| queue.foreign().execute_batch(sql).unwrap();
    change("INSERT INTO fetchers VALUES (9, 'h'); INSERT INTO fetcher_runs VALUES (9, 1, 1);");
    let refused = error(|| SqliteSource::open(&queue.path()));
    assert!(refused.contains("start the queue with it, stop it, and repeat the command"), "{refused}");
    change("DELETE FROM fetcher_runs WHERE fetcher_id = 9;");
    sqlite_source(&queue.path());
    change("DROP TABLE orchestrator_bump;");
    assert_eq!(error(|| SqliteSource::open(&queue.path())), refused);
}

#[test]
fn d18_jobs_that_two_instances_offered_under_one_name_are_refused() {
    let mut schema = TestStore::of(Kind::Postgres, Options::default());
    let job = OfferedJob::new("catalog.lab.work", "a", "1");
    let mut two = place_of(&schema.settings("two"));
    for s in [&mut schema as &mut dyn Storage, &mut two] {
        group(s, |s| s.offer(&job, "payload"));
    }
    let settings = schema.settings("one");
    schema.close();
    drop(two);
    let refused = error(|| PostgresSource::open(&settings.address, &settings.schema));
    assert!(refused.contains("has jobs of several instances for catalog.lab.work"), "{refused}");
    let mut two = place_of(&schema.settings("two"));
    group(&mut two, |s| s.withdraw(&job));
    drop(two);
    // The name of the second one has no jobs any more.
    let directory = tempfile::tempdir().unwrap();
    let report = to_sqlite(&settings, &directory.path().join("q.db"), &[]);
    let rows = |name| report.tables.iter().find(|(table, ..)| *table == name).map(|(_, rows, _)| *rows);
    assert_eq!((rows("fetcher"), rows("run"), rows("offer")), (Some(1), Some(1), Some(1)));
}
