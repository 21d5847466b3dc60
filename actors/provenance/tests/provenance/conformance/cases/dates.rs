//! Dates and preferred origins over several batches (contract §6).

use orchestrator_provenance::row::{Date, Rows};
use orchestrator_provenance::store::{Found, Question, Store};

use super::super::{Pair, at, bare_revisions, content, data, directory, origin, revision};

pub(crate) async fn earliest_date_wins<S: Store>(mut pair: Pair<S>) {
    for dates in [
        [None, at(5), at(5)],
        [at(7), None, at(6)],
        [at(8), at(5), at(4)],
        [at(-1), at(4), None],
        [None, at(i64::from(i32::MAX) * 1_000_000), at(4)],
    ] {
        let contents: Vec<_> = (0..3).map(content).zip(dates).collect();
        let directories = (0..3).map(directory).zip(dates).collect();
        let groups = [Rows::Contents(contents), Rows::Directories(directories)];
        pair.write(&groups).await;
        // The same again changes nothing.
        pair.write(&groups).await;
    }
    let Found::Dates(dates) = pair.ask(Question::Contents((0..3).map(content).collect())).await else {
        panic!("dates were asked for");
    };
    assert_eq!(dates.into_values().map(Some).collect::<Vec<_>>(), [at(-1), at(4), at(4)]);
}

pub(crate) async fn revision_date_and_origin_are_apart<S: Store>(mut pair: Pair<S>) {
    let origins = (0..3).map(|number| (origin(number), format!("https://o{number}"))).collect();
    pair.write(&[Rows::Origins(origins)]).await;
    pair.write(&[bare_revisions(0..4)]).await;
    for (date, origin) in [
        (at(9), None),
        (None, Some(origin(0))),
        // The later date loses, its origin wins.
        (at(10), Some(origin(1))),
        (at(3), None),
        (at(3), Some(origin(2))),
        // An unknown origin takes nothing away.
        (at(2), Some(origin(9))),
        (None, None),
    ] {
        let rows = [Rows::Revisions((0..2).map(|number| (revision(number), data(date, origin))).collect())];
        pair.write(&rows).await;
        pair.write(&rows).await;
    }
    let Found::Revisions(found) = pair.ask(Question::Revisions((0..4).map(revision).collect())).await else {
        panic!("revisions were asked for");
    };
    assert_eq!(found.get(&revision(1)), Some(&data(at(2), Some(origin(2)))));
    assert_eq!(found.len(), 2, "those of which nothing is known are absent");
}

/// Before 1970, at it, beyond 2038, in years 1 and 9999, to the microsecond.
pub(crate) async fn extremes<S: Store>(mut pair: Pair<S>) {
    const SECOND: i64 = 1_000_000;
    let mut dates = vec![
        0,
        1,
        -1,
        -2_208_988_800 * SECOND + 123_457,
        i64::from(i32::MAX) * SECOND + 1,
        i64::from(i32::MIN) * SECOND - 1,
        (1 << 32) * SECOND + 999_999,
        (1 << 33) * SECOND - 1,
        Date::MIN.micros(),
        Date::MAX.micros() - 999_999,
    ];
    if pair.flavor.exact_dates {
        dates.extend([Date::MIN.micros() + 1, Date::MAX.micros(), (1 << 34) * SECOND + 1]);
    }
    let dates: Vec<_> = (0..).zip(dates.into_iter().map(at)).collect();
    pair.write(&[
        Rows::Contents(dates.iter().map(|(number, date)| (content(*number), *date)).collect()),
        Rows::Directories(dates.iter().map(|(number, date)| (directory(*number), *date)).collect()),
        Rows::Revisions(dates.iter().map(|(number, date)| (revision(*number), data(*date, None))).collect()),
    ])
    .await;
}
