//! What workers say and hear, as seen from outside.

use super::house::{House, Store, service};

const JOBS: [(&str, &str); 4] = [("alpha", "0 1"), ("bravo", "0 2"), ("charlie", " 0  3"), ("delta", "0\t4")];

#[test]
fn p01_one_connection_asks_as_often_as_it_likes() {
    let store = Store::with_jobs(&JOBS);
    let house = House::with_store(service(), &store);
    let mut worker = house.connect();
    assert_eq!(worker.send("READY\n").line(), "JOB alpha 0 1");
    assert_eq!(worker.send("DONE alpha 0\n").line(), "JOB bravo 0 2");
    assert_eq!(worker.send("DONE bravo 124\n").line(), "JOB charlie  0  3");
    assert_eq!(worker.send("READY\n").line(), "JOB delta 0\t4");
    assert_eq!(worker.send("READY\n").line(), "NOJOBS");
    drop(worker);
    let expected =
        ["ready", "delivered 1", "done alpha 0", "delivered 2", "done bravo 124", "delivered 3", "ready"];
    assert_eq!(store.log()[..7], expected, "delivered comes before the next request");
    house.stop();
}

#[test]
fn p01_pipelined_requests_are_answered_in_order() {
    let store = Store::with_jobs(&JOBS);
    let house = House::with_store(service(), &store);
    let mut worker = house.connect();
    worker.send("READY\nDONE alpha 0\nREADY\nREADY\nREADY\n").shut_writing();
    assert_eq!(worker.rest(), "JOB alpha 0 1\nJOB bravo 0 2\nJOB charlie  0  3\nJOB delta 0\t4\nNOJOBS\n");
}

#[test]
fn p02_a_request_may_arrive_byte_by_byte() {
    let store = Store::with_jobs(&JOBS);
    let house = House::with_store(service(), &store);
    let mut worker = house.connect();
    for byte in b"READY\nDONE alpha 0\n" {
        worker.send([*byte]);
        std::thread::yield_now();
    }
    assert_eq!((worker.line().as_str(), worker.line().as_str()), ("JOB alpha 0 1", "JOB bravo 0 2"));
}

#[test]
fn p03_p04_a_bad_line_closes_without_reply_and_nothing_after_it_is_done() {
    for bad in ["\n", "READY\r\n", "READY \n", "ready\n", "QUIT\n", "DONE\n"] {
        let store = Store::with_jobs(&JOBS);
        let house = House::with_store(service(), &store);
        let mut worker = house.connect();
        assert_eq!(worker.send("READY\n").line(), "JOB alpha 0 1");
        worker.send(format!("{bad}DONE alpha 0\n"));
        assert_eq!(worker.rest(), "", "{bad:?}");
        assert_eq!(house.connect().send("READY\n").line(), "JOB bravo 0 2");
        assert!(!store.log().iter().any(|entry| entry.starts_with("done")), "{bad:?}");
    }
}

#[test]
fn p03_ready_without_newline_at_the_end_is_not_a_request() {
    let store = Store::with_jobs(&JOBS);
    let house = House::with_store(service(), &store);
    assert_eq!(house.connect().send("READY").shut_writing().rest(), "");
    assert_eq!(store.log(), Vec::<String>::new());
}

#[test]
fn p05_a_bad_done_closes_without_any_effect() {
    let bad: [&[u8]; 5] =
        [b"DONE a\n", b"DONE a \n", b"DONE a x\n", b"DONE \xff 0\n", b"DONE a 9223372036854775808\n"];
    for line in bad {
        let store = Store::with_jobs(&JOBS);
        let house = House::with_store(service(), &store);
        assert_eq!(house.connect().send(line).rest(), "", "{line:?}");
        assert_eq!(store.log(), Vec::<String>::new(), "{line:?}");
    }
}

#[test]
fn p06_the_last_done_needs_no_newline() {
    let store = Store::with_jobs(&JOBS);
    let house = House::with_store(service(), &store);
    assert_eq!(house.connect().send("DONE x +1_0").shut_writing().rest(), "JOB alpha 0 1\n");
    store.wait_for("done x 10");
}

#[test]
fn p09_a_line_of_65536_bytes_is_accepted_and_a_longer_one_is_not() {
    let store = Store::with_jobs(&JOBS);
    let house = House::with_store(service(), &store);
    let attr = "x".repeat(65_536 - "DONE  0".len());
    assert_eq!(house.connect().send(format!("DONE {attr} 0\n")).line(), "JOB alpha 0 1");
    let mut worker = house.connect();
    worker.send(format!("DONE {attr}x 0\n"));
    assert_eq!(worker.rest(), "");
    assert_eq!(store.log().iter().filter(|entry| entry.starts_with("done")).count(), 1);
}

#[test]
fn p10_a_worker_that_shuts_its_writing_side_is_answered_and_then_closed() {
    let store = Store::with_jobs(&JOBS);
    let house = House::with_store(service(), &store);
    assert_eq!(house.connect().send("READY\n").shut_writing().rest(), "JOB alpha 0 1\n");
    assert_eq!(house.connect().send("DONE alpha 0\n").shut_writing().rest(), "JOB bravo 0 2\n");
    assert_eq!(house.connect().shut_writing().rest(), "");
}
