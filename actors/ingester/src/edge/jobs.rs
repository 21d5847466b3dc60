//! Jobs of the queue for mappings that ended whole (CONTRACT IS05): a thread keeps their records in files,
//! and offers each job until it has ended.

mod records;

use std::{io, path::Path};

use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use orchestrator_edge::{LinkState, Reconnecting, RetryPolicy, file_failure, timed};
use orchestrator_exchange::{JobEnd, JobOffered, JobQueue};
use orchestrator_observe::{LinkFailure, metrics};
use orchestrator_supervise::{Factory, Fault, Inbox, InboxSlot, Reply, StartCx};
use orchestrator_text::sanitize;
use uuid::Uuid;

use self::records::Records;
use crate::on_finished::{FinishedMapping, OnFinished};

/// Maximum number of jobs that are offered at a time. Others wait in their records.
const OFFERED_MAX: usize = 256;

/// Report of the actor Ingester, answered once it is durable.
#[derive(Debug)]
pub(crate) enum JobCommand {
    /// A mapping begins; true if the same update finishes it.
    Begin(Uuid, bool, Reply<()>),
    /// The controller has finished a mapping, and its dump is closed.
    End(FinishedMapping, Reply<()>),
}

metrics! {
    /// Metrics of the jobs.
    struct JobMetrics {
        /// Jobs of mappings that ended whole.
        made: counter("jobs") as "finished_jobs",
        /// Jobs that have not ended.
        open: gauge("jobs") as "open_jobs",
        /// Jobs that a worker reported with another exit code than 0, and those that the queue refused.
        failed: counter("jobs") as "failed_jobs",
    }
}

pub(crate) fn factory(
    name: &str,
    process: Uuid,
    config: OnFinished,
    queue: JobQueue,
    slot: &InboxSlot<JobCommand>,
) -> Factory {
    let (name, commands) = (name.to_owned(), slot.clone());
    let directory = config.directory(&name);
    let factory = Factory::thread(move |cx: StartCx| {
        let inbox = commands.open();
        timed(async {
            let link = LinkState::new(&cx, "records", directory.display().to_string(), RetryPolicy::LOCAL);
            let (metrics, queue) = (JobMetrics::register(&cx.vitals), queue.clone());
            let jobs =
                Jobs { cx: &cx, name: &name, directory: &directory, process, config: &config, queue, inbox };
            Service { jobs, metrics, failed: None }.run(&link).await;
            Ok::<(), Fault>(())
        })
    });
    factory.with_inbox("mappings", slot)
}

struct Jobs<'a> {
    cx: &'a StartCx,
    name: &'a str,
    directory: &'a Path,
    /// Identity of this process.
    process: Uuid,
    config: &'a OnFinished,
    queue: JobQueue,
    inbox: Inbox<JobCommand>,
}

/// One incarnation of the thread.
struct Service<'a> {
    jobs: Jobs<'a>,
    metrics: JobMetrics,
    /// Command that failed while the records could not be written.
    failed: Option<JobCommand>,
}

type Offers = FuturesUnordered<LocalBoxFuture<'static, (JobOffered, Uuid, JobEnd)>>;

impl Reconnecting for Service<'_> {
    type Connection = Records;
    type Error = LinkFailure;

    async fn connect(&mut self) -> Result<Records, LinkFailure> {
        Records::open(self.jobs.directory, self.jobs.process).map_err(|error| self.failure(&error))
    }

    async fn serve(&mut self, mut records: Records, link: &LinkState) -> Result<(), LinkFailure> {
        let owner = format!("ingester.{}", self.jobs.name);
        let mut waiting: Vec<_> = records.jobs(&owner).into_iter().rev().collect();
        let mut offers = Offers::new();
        loop {
            self.metrics.open.set((waiting.len() + offers.len()) as u64);
            while offers.len() < OFFERED_MAX
                && let Some((uuid, offer)) = waiting.pop()
            {
                offers.push(offer_until_end(self.jobs.queue.clone(), uuid, offer));
            }
            let command = match self.failed.take() {
                Some(command) => command,
                None => tokio::select! {
                    biased;
                    Some((offer, uuid, end)) = offers.next(), if !offers.is_empty() => {
                        // After an error the job is offered again, and has the same end.
                        self.record_end(&mut records, offer, uuid, end).map_err(|error| self.failure(&error))?;
                        link.succeeded();
                        continue;
                    }
                    command = self.jobs.inbox.next(self.jobs.cx) => match command {
                        Some(command) => command,
                        None => return Ok(()),
                    },
                },
            };
            let job = self.record(&mut records, command).map_err(|error| self.failure(&error))?;
            if let Some(job) = job {
                self.metrics.made.add(1);
                waiting.insert(0, job);
            }
            link.succeeded();
        }
    }
}

impl Service<'_> {
    fn failure(&self, error: &io::Error) -> LinkFailure {
        file_failure(error.to_string(), self.jobs.directory, error)
    }

    /// Records what the ingester reports. Returns the job of a mapping that ended whole.
    fn record(
        &mut self,
        records: &mut Records,
        command: JobCommand,
    ) -> io::Result<Option<(Uuid, JobOffered)>> {
        let _work = self.jobs.cx.vitals.begin_work("record");
        let (done, job) = match &command {
            JobCommand::Begin(uuid, is_last_update, _) => (records.begin(*uuid, *is_last_update), None),
            JobCommand::End(mapping, _) => {
                let offer = self.jobs.config.job(self.jobs.name, mapping);
                match records.end(mapping.uuid, mapping.is_whole, &offer) {
                    Ok(has_job) => (Ok(()), has_job.then_some((mapping.uuid, offer))),
                    Err(error) => (Err(error), None),
                }
            }
        };
        if let Err(error) = done {
            self.failed = Some(command);
            return Err(error);
        }
        let (JobCommand::Begin(.., reply) | JobCommand::End(_, reply)) = command;
        // The ingester does not wait for a slow disk.
        let _ = reply.send(());
        Ok(job)
    }

    /// Records the end of a job, and then withdraws it, so that the queue forgets it.
    fn record_end(
        &mut self,
        records: &mut Records,
        offer: JobOffered,
        uuid: Uuid,
        end: JobEnd,
    ) -> io::Result<()> {
        let _work = self.jobs.cx.vitals.begin_work("record");
        records.job_ended(uuid)?;
        let path = sanitize(offer.job.attr_path());
        match end {
            JobEnd::Finished(end) if end.exit_code == 0 => {}
            JobEnd::Finished(end) => {
                self.metrics.failed.add(1);
                self.note(&format!(
                    "the job {path} of mapping {uuid} ended with exit code {}",
                    end.exit_code
                ));
            }
            JobEnd::Refused(reason) => {
                self.metrics.failed.add(1);
                self.note(&format!("the queue refused the job {path} of mapping {uuid}: {reason}"));
            }
            // Offered until it is free.
            JobEnd::Taken => {}
        }
        self.jobs.queue.withdraw(offer.job);
        Ok(())
    }

    fn note(&self, text: &str) {
        tracing::warn!(path = self.jobs.cx.vitals.path(), text);
        self.jobs.cx.vitals.note(text);
    }
}

/// Offers a job until it has ended. The paths of two mappings differ, so that a path is never taken for long.
fn offer_until_end(
    queue: JobQueue,
    uuid: Uuid,
    offer: JobOffered,
) -> LocalBoxFuture<'static, (JobOffered, Uuid, JobEnd)> {
    Box::pin(async move {
        loop {
            match queue.end_of(&offer).await {
                JobEnd::Taken => tokio::time::sleep(RetryPolicy::REMOTE.delay(8)).await,
                end => return (offer, uuid, end),
            }
        }
    })
}
