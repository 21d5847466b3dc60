//! Child that runs the Python process of one class, and starts it again when it has ended.

use std::{
    cell::{Cell, RefCell},
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_edge::{LinkState, RetryPolicy};
use orchestrator_observe::metrics;
use orchestrator_supervise::{Fault, Inbox, InboxSlot, StartCx};
use orchestrator_text::sanitize;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, sendmsg, shutdown};
use serde_json::{Value, json};
use tokio::{
    io::Interest,
    net::UnixStream,
    sync::Notify,
    time::{sleep, timeout},
};

use super::{
    launch::{Launch, Running},
    redaction::Redaction,
    request::Request,
    stderr::{self, LastLine},
};
use crate::messages::StreamsAssigned;

/// Delays before the next process. Longer than those of a file: each start of Python takes processor time
/// from the scans.
const RETRY: RetryPolicy = RetryPolicy::exception(Duration::from_millis(50), Duration::from_secs(10));
/// Longest line of the process on its control socket, bytes.
const LINE_MAX: usize = 64 << 10;
/// Time-out for the class to stop the former run. A process that exceeds it is killed.
const RUN_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of the checks for that time-out.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Time for the class to stop at the end of the program.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which standard error is read after the end of the process.
const LINGER: Duration = Duration::from_millis(200);

metrics! {
    /// Metrics of the process.
    struct ProcessMetrics {
        /// Ends of the Python process of an ingester class that nobody asked for; each ends the current scan.
        exits: counter("") as "python_exits",
    }
}

/// State of the child over all processes.
struct Host {
    launch: Arc<Launch>,
    redaction: Redaction,
    link: LinkState,
    /// Newest mapping that a process has taken part in. The next process cannot resume it.
    newest: Cell<u64>,
    /// Newest mapping that an ended process has taken part in.
    lost: Cell<u64>,
}

/// State of one process.
#[derive(Default)]
struct ProcessState {
    /// Mapping whose former run is being stopped, and the time of the request.
    starting: Cell<Option<(u64, Instant)>>,
    /// Exception that ended the process.
    failure: RefCell<Option<String>>,
    ready: Notify,
    /// Beginning of the next report.
    text: RefCell<Vec<u8>>,
}

/// End of a process.
enum End {
    /// The child is being stopped.
    Stopped,
    /// The process has ended by itself, or somebody has killed it.
    Exited,
    /// The process has to be killed, for this reason.
    Killed(String),
}

/// Runs processes until the child is stopped.
pub(super) async fn serve(
    launch: Arc<Launch>,
    requests: InboxSlot<Request>,
    events: InboxSlot<StreamsAssigned>,
    cx: StartCx,
) -> Result<(), Fault> {
    let metrics = ProcessMetrics::register(&cx.vitals);
    let link = LinkState::new(&cx, "python", launch.class.to_string(), RETRY);
    let (mut requests, mut events) = (requests.open(), events.open());
    // After a restart of this child the runs of the current mapping are over, too.
    let current = if cx.incarnation > 1 { launch.mappings.get().current.number } else { 0 };
    let redaction = Redaction::of(&launch.redis_url);
    let host = Host { launch, redaction, link, newest: Cell::new(current), lost: Cell::new(current) };
    loop {
        let reason = match host.launch.start() {
            Ok(running) => host.run(running, (&mut requests, &mut events), &cx).await,
            Err(error) => Some(host.not_started(&error)),
        };
        let Some(reason) = reason else { return Ok(()) };
        metrics.exits.add(1);
        host.lost.set(host.newest.get());
        if !host.link.retry(reason).await {
            return Ok(());
        }
    }
}

impl Host {
    fn not_started(&self, error: &io::Error) -> String {
        let python = self.launch.python.display();
        format!("{python} cannot be started: {error}: install it, or set ingester.python")
    }

    /// Serves one process. Returns the reason of its end, or None after a stop.
    async fn run(
        &self,
        mut running: Running,
        (requests, events): (&mut Inbox<Request>, &mut Inbox<StreamsAssigned>),
        cx: &StartCx,
    ) -> Option<String> {
        let (progress, last, errors) = (ProcessState::default(), LastLine::default(), running.stderr.take());
        let logging = async {
            if let Some(errors) = errors {
                stderr::log(errors, cx.vitals.path(), &self.redaction, &last).await;
            }
            std::future::pending().await
        };
        let mut logging = std::pin::pin!(logging);
        let end = tokio::select! {
            biased;
            () = cx.stop.cancelled() => End::Stopped,
            _ = running.process.ended() => End::Exited,
            reason = self.serve_process(&running.control, &progress, requests, events) => End::Killed(reason),
            end = &mut logging => end,
        };
        if matches!(end, End::Stopped) {
            // The end of its standard input stops the class.
            let _ = shutdown(&running.control, Shutdown::Both);
            let stopped = async {
                tokio::select! {
                    _ = running.process.ended() => End::Stopped,
                    end = &mut logging => end,
                }
            };
            let _ = timeout(STOP_TIMEOUT, stopped).await;
            let _ = running.process.reap().await;
            return None;
        }
        let status = running.process.reap().await;
        progress.read_rest(&running.control);
        let _ = timeout(LINGER, &mut logging).await;
        Some(self.exit_text(end, status, &progress, &last))
    }

    fn exit_text(
        &self,
        end: End,
        status: io::Result<ExitStatus>,
        progress: &ProcessState,
        last: &LastLine,
    ) -> String {
        let (ended, by_itself) = match status {
            Ok(status) => (status.to_string(), status.code().is_some()),
            Err(error) => (format!("exit status unknown: {error}"), false),
        };
        let failure = progress.failure.take().map(|text| sanitize(self.redaction.apply(text.as_bytes())));
        let detail = match end {
            End::Killed(reason) => reason,
            // The last line of a process that a signal ended does not explain it.
            _ => failure.or(by_itself.then(|| last.text())).unwrap_or_default(),
        };
        let class = &self.launch.class;
        if ["ModuleNotFoundError", "ImportError"].iter().any(|name| detail.contains(name)) {
            let python = self.launch.python.display();
            let keys = "install what is missing there, or set ingester.python, or PYTHONPATH in ingester.env";
            return format!("{class} cannot be imported by {python}: {keys}: {detail}");
        }
        let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
        format!("{class} has ended ({ended}), and the current scan with it{detail}")
    }

    /// Feeds the process and reads its reports. Returns the reason to kill it.
    async fn serve_process(
        &self,
        control: &UnixStream,
        progress: &ProcessState,
        requests: &mut Inbox<Request>,
        events: &mut Inbox<StreamsAssigned>,
    ) -> String {
        let preamble = self.launch.preamble();
        let ready = async {
            write_all(control, &preamble).await?;
            progress.ready.notified().await;
            self.link.succeeded();
            self.feed(control, progress, requests, events).await
        };
        tokio::select! {
            reason = listen(control, progress) => reason,
            reason = overdue(progress) => reason,
            // The process no longer reads; its end follows.
            _ = ready => std::future::pending().await,
        }
    }

    async fn feed(
        &self,
        control: &UnixStream,
        progress: &ProcessState,
        requests: &mut Inbox<Request>,
        events: &mut Inbox<StreamsAssigned>,
    ) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                Some(request) = requests.recv() => self.request(control, progress, request).await?,
                Some(assigned) = events.recv() => self.events(control, &assigned).await?,
                else => return Ok(()),
            }
        }
    }

    async fn request(
        &self,
        control: &UnixStream,
        progress: &ProcessState,
        request: Request,
    ) -> io::Result<()> {
        let (stream, number, socket) = match request {
            Request::Run { stream, mapping, socket } => (stream, mapping, socket),
            Request::Finished(mapping) => return write_line(control, &json!({ "finished": mapping })).await,
        };
        let mapping = self.launch.mappings.get().current;
        if mapping.number != number || number <= self.lost.get() {
            // The socket is dropped, which ends the run.
            return Ok(());
        }
        let active: Vec<_> = mapping
            .active
            .iter()
            .filter_map(|position| self.launch.streams.iter().find(|(ours, _)| ours == position))
            .map(|(_, name)| name)
            .collect();
        self.newest.set(number);
        if progress.starting.get().is_none_or(|(former, _)| former != number) {
            progress.starting.set(Some((number, Instant::now())));
        }
        let order = json!({ "run": stream, "mapping": number, "uuid": mapping.uuid, "active": active });
        send_socket(control, format!("{order}\n").as_bytes(), socket).await
    }

    /// Sends the streams of assigned events, equal ones together.
    async fn events(&self, control: &UnixStream, assigned: &StreamsAssigned) -> io::Result<()> {
        if assigned.mapping <= self.lost.get() {
            return Ok(());
        }
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for streams in &assigned.events {
            match runs.last_mut() {
                Some((same, count)) if same == streams => *count += 1,
                _ => runs.push((*streams, 1)),
            }
        }
        self.newest.set(self.newest.get().max(assigned.mapping));
        write_line(control, &json!({ "events": runs, "mapping": assigned.mapping })).await
    }
}

impl ProcessState {
    /// Reads reports that have arrived; returns the number of bytes.
    fn read(&self, control: &UnixStream) -> io::Result<usize> {
        let mut text = self.text.borrow_mut();
        let count = control.try_read_buf(&mut *text)?;
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let report: Value = serde_json::from_slice(&text[..end]).unwrap_or_default();
            text.drain(..=end);
            self.report(&report);
        }
        Ok(count)
    }

    /// Reads reports that arrived together with the end, at most [`LINE_MAX`] bytes: a program that
    /// the class started may still write.
    fn read_rest(&self, control: &UnixStream) {
        let mut left = LINE_MAX;
        while let Ok(count @ 1..) = self.read(control) {
            left = left.saturating_sub(count);
            if left == 0 {
                return;
            }
        }
    }

    fn report(&self, report: &Value) {
        if report["ready"].is_boolean() {
            self.ready.notify_one();
        }
        if let (Some(started), Some((wanted, _))) = (report["started"].as_u64(), self.starting.get())
            && started >= wanted
        {
            self.starting.set(None);
        }
        if let Some(failure) = report["failed"].as_str() {
            *self.failure.borrow_mut() = Some(failure.to_owned());
        }
    }
}

/// Reads the reports of the process; returns the reason to kill it.
async fn listen(control: &UnixStream, progress: &ProcessState) -> String {
    loop {
        if control.readable().await.is_err() {
            return std::future::pending().await;
        }
        match progress.read(control) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The end of the process follows.
            Ok(0) | Err(_) => return std::future::pending().await,
        }
        if progress.text.borrow().len() > LINE_MAX {
            return format!("it wrote a line of more than {LINE_MAX} bytes to its standard input");
        }
    }
}

/// Ends with an error text once the class has not stopped its former run in time.
async fn overdue(progress: &ProcessState) -> String {
    loop {
        sleep(CHECK_INTERVAL).await;
        if progress.starting.get().is_some_and(|(_, since)| since.elapsed() >= RUN_TIMEOUT) {
            let seconds = RUN_TIMEOUT.as_secs();
            return format!("the former run did not stop within {seconds} s: does the class block?");
        }
    }
}

async fn write_line(control: &UnixStream, order: &Value) -> io::Result<()> {
    write_all(control, format!("{order}\n").as_bytes()).await
}

async fn write_all(control: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        control.writable().await?;
        match control.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes `line` and sends `socket` with its first byte.
async fn send_socket(control: &UnixStream, line: &[u8], socket: OwnedFd) -> io::Result<()> {
    let sent = control
        .async_io(Interest::WRITABLE, || {
            let sockets = [socket.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            Ok(sendmsg(control, &[IoSlice::new(line)], &mut ancillary, flags)?)
        })
        .await?;
    write_all(control, &line[sent..]).await
}
