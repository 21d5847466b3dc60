//! The queue's page of an instance that shares its queue with others.

use orchestrator_harness::{Postgres, Reply, eventually};

use crate::browser::{Browser, env};

#[tokio::test]
async fn instances_are_listed_and_each_job_names_the_one_that_has_it() {
    let dsn = Postgres::shared().create_database("page");
    let site = |name: &str| {
        let site = env().set("queue.store=postgres").set(&format!("queue.postgres.dsn={dsn}"));
        site.set(&format!("queue.postgres.instance={name}"))
    };
    let (left, right) = (site("left"), site("right"));
    left.write("f.1.txt", "a 0\n");
    let _instances = [left.start(), right.start()];
    let mut worker = right.worker();
    eventually("the job", || matches!(worker.ready(), Reply::Job { .. }));
    let browser = Browser::open(&left).await;
    browser.go("#/queue").await;
    let row = format!(
        "[...document.querySelectorAll('[aria-label=\"Instances\"] tbody tr')].some(row =>
             ['right', 'held', '{}', '1'].every(text => row.innerText.includes(text)))",
        right.socket().display()
    );
    browser.until("the other instance", &row).await;
    let jobs =
        "document.querySelector('.job-list[aria-label=\"Jobs in flight\"]').innerText.includes(' at right')";
    browser.until("the instance of the job", jobs).await;
    browser.go("#/queue/job/a").await;
    browser.until("the page of the job", "document.body.innerText.includes(' at right, held until')").await;
}
