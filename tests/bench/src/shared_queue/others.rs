//! Other queues on the same machine, with as many workers: a table with `SKIP LOCKED`, and a quorum queue of
//! RabbitMQ.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, future::try_join_all};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
        QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable},
};
use orchestrator_edge::postgres::{Address, Session};
use orchestrator_harness::{Postgres, Rabbit};

use super::bare::SETTINGS;
use crate::subject::row;

/// Number of messages that wait for their confirms.
const UNCONFIRMED: usize = 256;

/// Adds `rows` jobs to the table.
pub(super) fn fill_table(server: &Postgres, dsn: &str, rows: usize) {
    server.script(
        dsn,
        &format!(
            "CREATE TABLE IF NOT EXISTS job (id bigserial PRIMARY KEY, payload text NOT NULL, worker integer);
             CREATE INDEX IF NOT EXISTS job_waiting ON job (id) WHERE worker IS NULL;
             INSERT INTO job (payload) SELECT 'python3Packages.package-' || n || ' 0.1 1.0 https://example.org/' || n
             FROM generate_series(1, {rows}) AS n; ANALYZE job"
        ),
    );
}

/// Jobs a second of `workers` sessions that each mark the first job as their own and delete it at its end.
pub(super) async fn table(dsn: &str, workers: usize, span: Duration) -> Result<f64> {
    let address = Address::parse(dsn, "table")?;
    let sessions = try_join_all((0..workers).map(|_| Session::open(&address, &SETTINGS))).await?;
    let begun = Instant::now();
    let work = sessions.into_iter().zip(0_i32..).map(|(mut session, worker)| async move {
        let mut jobs = 0_usize;
        while begun.elapsed() < span {
            let take = "UPDATE job SET worker = $1 WHERE id = (
                            SELECT id FROM job WHERE worker IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
                        RETURNING id, payload";
            let taken = session.query("taking a job", take, vec![Box::new(worker)]).await?;
            let id: i64 = taken.first().context("the table ran dry")?.try_get(0)?;
            session.query("ending a job", "DELETE FROM job WHERE id = $1", vec![Box::new(id)]).await?;
            jobs += 1;
        }
        anyhow::Ok(jobs)
    });
    let jobs: usize = try_join_all(work).await?.into_iter().sum();
    Ok(jobs as f64 / begun.elapsed().as_secs_f64())
}

/// Messages a second into a quorum queue, each confirmed, and out of it by `workers` consumers that
/// acknowledge each before the next.
pub(super) async fn quorum_queue(
    rabbit: &Rabbit,
    workers: usize,
    rows: usize,
    span: Duration,
) -> Result<[f64; 2]> {
    const QUEUE: &str = "jobs";
    let connection = Connection::connect(&rabbit.url(), ConnectionProperties::default()).await?;
    let publisher = connection.create_channel().await?;
    publisher.confirm_select(ConfirmSelectOptions::default()).await?;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    publisher.queue_declare(QUEUE.into(), durable, arguments).await?;
    let begun = Instant::now();
    for first in (0..rows).step_by(UNCONFIRMED) {
        let confirms = (first..rows.min(first + UNCONFIRMED)).map(|n| publish(&publisher, QUEUE, n));
        try_join_all(confirms).await?;
    }
    let published = rows as f64 / begun.elapsed().as_secs_f64();
    let channels = try_join_all((0..workers).map(|_| connection.create_channel())).await?;
    let begun = Instant::now();
    let work = channels.into_iter().map(|channel| async move {
        channel.basic_qos(1, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        let mut consumer =
            channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await?;
        let mut jobs = 0_usize;
        while begun.elapsed() < span {
            let delivery = consumer.next().await.context("the consumer ended")??;
            delivery.ack(BasicAckOptions::default()).await?;
            jobs += 1;
        }
        anyhow::Ok(jobs)
    });
    let jobs: usize = try_join_all(work).await?.into_iter().sum();
    ensure!(jobs < rows, "the queue ran dry");
    Ok([published, jobs as f64 / begun.elapsed().as_secs_f64()])
}

/// Publishes a persistent message and awaits its confirm.
async fn publish(channel: &Channel, queue: &str, n: usize) -> Result<()> {
    let body = format!("{} {}", row::attr_path(n), row::payload(n));
    let properties = BasicProperties::default().with_delivery_mode(2);
    let sent = channel
        .basic_publish("".into(), queue.into(), BasicPublishOptions::default(), body.as_bytes(), properties)
        .await?;
    ensure!(matches!(sent.await?, Confirmation::Ack(_)), "a message was refused");
    Ok(())
}
