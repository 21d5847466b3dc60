//! Rows that other instances add (CONTRACT QO19): found when their notification comes, and otherwise from the
//! head once a second.

use super::*;

impl Observer {
    /// Notifications since the last call.
    fn notifications(&mut self) -> Vec<String> {
        // The server keeps the order of transactions.
        self.run(&format!("NOTIFY {}, 'last'", self.schema));
        let mut payloads = Vec::new();
        loop {
            let notified = self.runtime.block_on(self.session.notified(Duration::from_secs(10))).unwrap();
            match notified.expect("the last notification").payload() {
                "last" => return payloads,
                payload => payloads.push(payload.to_owned()),
            }
        }
    }
}

fn drain(store: &mut dyn Storage, now: i64) -> usize {
    std::iter::from_fn(|| next_attr(store, now)).count()
}

#[test]
fn others_are_told_once_for_each_transaction_while_a_worker_waits() {
    let (mut one, mut observer) = shared(&[]);
    let added = AddedKeys::default();
    let mut two = try_told(&one.settings("two"), added.clone()).unwrap();
    observer.run(&format!("LISTEN {}", one.schema));
    feed_batch(&mut one, "f1", 1, &packages(20));
    assert!(observer.notifications().is_empty(), "nobody waits");
    assert_eq!(drain(&mut two, 10), 20);
    feed_batch(&mut one, "f2", 1, &packages(20));
    assert!(observer.notifications().is_empty(), "the paths are in flight");
    feed(&mut one, "f3", 1, &[("alpha", "0 1"), ("beta", "0 1")]);
    feed(&mut one, "f3", 2, &[("gamma", "0 1")]);
    let told = observer.notifications();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(drain(&mut two, 10), 0, "nothing was there a moment ago");
    added.add(&told[0]);
    added.add(&told[1]);
    assert!(next_attr(&mut two, 10).is_some());
    feed(&mut one, "f3", 3, &[("delta", "0 1")]);
    assert!(observer.notifications().is_empty(), "nobody waits");
}

#[test]
fn without_a_notification_rows_are_found_a_second_later() {
    let (mut one, _observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    feed_batch(&mut one, "f1", 1, &packages(20));
    for _ in 0..10 {
        assert!(next_attr(&mut two, 10).is_some());
    }
    let lines = (0..20).map(|n| (format!("other{n}"), "0 1".to_owned()));
    feed_batch(&mut one, "f2", 1, &Batch::after(0, lines));
    let found = drain(&mut two, 10);
    assert!((10..30).contains(&found), "rows behind the floor: {found}");
    assert_eq!(found + drain(&mut two, 11), 30);
}

#[test]
fn a_worker_that_finds_nothing_costs_the_server_nothing_for_a_second() {
    let (mut one, mut observer) = shared(&[]);
    assert_eq!([drain(&mut one, 10), drain(&mut one, 10)], [0, 0]);
    observer.run("BEGIN; LOCK TABLE ready IN ACCESS EXCLUSIVE MODE");
    assert_eq!(drain(&mut one, 10), 0);
}
