//! A fetcher has one instance, and `queue adopt` moves it (CONTRACT QF09).

use orchestrator_harness::{Postgres, PrintedCause, Reply, TestEnv, eventually, wait_for};

use super::{SharedQueue, shared::answer, stop};

/// Waits for the cause of files that belong to another instance.
fn refusal(site: &TestEnv, text: &str) -> PrintedCause {
    let is_it = |cause: &PrintedCause| cause.path == "queue/reader" && cause.text.contains(text);
    wait_for(text, || site.causes("queue").into_iter().find(is_it))
}

fn await_no_refusal(site: &TestEnv) {
    eventually("no refusal", || site.causes("queue").iter().all(|cause| cause.path != "queue/reader"));
}

#[test]
fn a_fetcher_in_two_places_is_refused_until_it_is_adopted() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "adopted", 2).named();
    let [left, right] = &queue.sites[..] else { unreachable!() };
    let of_fetcher = |sql: &str| queue.rows(server, &format!("{sql} FROM fetchers AS f WHERE f.name = 'f'"));
    left.write("f.1.txt", "a 0\nb 0\n");
    left.write("other.1.txt", "z 0\n");
    let instances = queue.start();
    let runs = "SELECT count(*) FROM fetcher_runs WHERE is_complete = 1";
    eventually("the files to be read", || queue.rows(server, runs) == ["2"]);
    let number = of_fetcher("SELECT f.fetcher_id");
    let mut worker = left.worker();
    let Reply::Job { attr_path: taken, .. } = worker.ready() else { panic!("a job") };

    right.write("f.1.txt", "a 0\nb 0\n");
    right.write("f.2.txt", "c 0\n");
    let here = "fetcher f belongs to the instance left, so its files at the instance right are not read";
    let found = refusal(right, here);
    assert_eq!(found.help, "orchestrator queue adopt f at this instance, or remove its files here");
    eventually("both files in the list", || {
        let rows = answer(right, &["ls"]);
        let refused = |name: &str| {
            let start = format!("{name}: {here}");
            rows.as_array()
                .into_iter()
                .flatten()
                .any(|row| row["refused"].as_str().is_some_and(|text| text.starts_with(&start)))
        };
        refused("f.1.txt") && refused("f.2.txt")
    });
    assert!(right.node("queue/reader")["note"]["text"].to_string().contains(here));
    assert_eq!(queue.rows(server, "SELECT count(*) FROM listing"), ["3"], "nothing of them was stored");

    let (code, out, err) = right.cli(&["queue", "adopt", "other"]);
    assert_eq!(code, 4, "{out}{err}");
    assert!(err.contains("copy its files to this instance first"), "{err}");
    let (code, out, err) = right.cli(&["queue", "adopt", "f", "--reason", "left is retired"]);
    assert_eq!((code, out.as_str()), (0, "f moved from left to right: remove its files at left\n"), "{err}");
    eventually("the second file to be read", || queue.rows(server, runs) == ["3"]);
    await_no_refusal(right);
    assert_eq!(of_fetcher("SELECT f.fetcher_id"), number);
    // The former owner says that it has lost the fetcher, and changes nothing.
    refusal(left, "fetcher f belongs to the instance right, so its files at the instance left are not read");
    left.append("f.1.txt", "late 0\n");
    left.remove("f.1.txt");
    await_no_refusal(left);
    assert_eq!(queue.rows(server, runs), ["3"]);
    let rows = answer(left, &["instances"]);
    assert_eq!((&rows[0]["fetchers"], &rows[1]["fetchers"]), (&1.into(), &1.into()), "{rows}");

    let mut rest = vec![taken];
    while let Reply::Job { attr_path, .. } = worker.ready() {
        rest.push(attr_path);
    }
    rest.sort();
    assert_eq!(rest, ["a", "b", "c", "z"], "each was handed out once");
    right.remove("f.2.txt");
    eventually("the run to be gone", || queue.rows(server, runs) == ["2"]);
    stop(instances);
}

#[test]
fn a_fetcher_of_an_instance_that_is_gone_is_adopted_with_its_marks() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "orphaned", 2).named();
    let [left, right] = &queue.sites[..] else { unreachable!() };
    left.write("f.1.txt", "a 0\nb 0\n");
    let mut instances = queue.start();
    let mut worker = left.worker();
    let first = wait_for("a job", || match worker.ready() {
        Reply::Job { attr_path, .. } => Some(attr_path),
        _ => None,
    });
    worker.done(&first, 0);
    instances.remove(0).kill_nine();
    right.write("f.1.txt", "a 0\nb 0\n");
    refusal(right, "fetcher f belongs to the instance left");
    assert_eq!(answer(right, &["adopt", "f"])["from"], "left");
    await_no_refusal(right);
    let is_dead = |cause: &PrintedCause| cause.path == "queue/server_watch" && cause.text.contains("is dead");
    let dead = wait_for("the dead instance", || right.causes("queue").into_iter().find(is_dead));
    assert!(dead.text.starts_with("the instance `left` on host "), "{dead:?}");
    assert!(dead.evidence[0].starts_with("its lease ended at "), "{dead:?}");
    assert!(dead.help.starts_with("start `left` on "), "{dead:?}");
    assert_eq!(right.metric("queue/server_watch", "dead_instances"), 1);
    // A start of the former owner leaves the runs alone.
    instances.push(left.start());
    refusal(left, "fetcher f belongs to the instance right");
    eventually("no dead instance", || !right.causes("queue").iter().any(is_dead));
    let runs = "SELECT count(*) FROM fetcher_runs WHERE is_complete = 1";
    assert_eq!(queue.rows(server, runs), ["1"]);
    assert_eq!(queue.rows(server, "SELECT count(*) FROM log WHERE finished IS NOT NULL"), ["1"]);
    // One that was stopped is not dead.
    stop(vec![instances.remove(1)]);
    let looks =
        |name: &str| queue.rows(server, &format!("SELECT {name} FROM instance WHERE instance = 'left'"));
    assert_eq!(looks("lease_until <= clock_timestamp() AND incarnation < 0 AND NOT is_locked"), ["t"]);
    stop(instances);
}
