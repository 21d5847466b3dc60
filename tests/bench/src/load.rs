//! Workers under load: all on one thread, so that the generator takes as little of the machine as it can.

use std::{
    io::ErrorKind,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    task::JoinSet,
};

/// Measurements of the workers.
pub(crate) struct Load {
    pub(crate) ops: usize,
    pub(crate) seconds: f64,
    latencies: Vec<Duration>,
}

impl Load {
    pub(crate) fn ops_per_s(&self) -> f64 {
        self.ops as f64 / self.seconds
    }

    /// Latency at quantile `q`, milliseconds.
    pub(crate) fn quantile_ms(&mut self, q: f64) -> f64 {
        self.latencies.sort_unstable();
        let last = self.latencies.len().saturating_sub(1);
        let index = ((last as f64) * q).round() as usize;
        self.latencies.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    }
}

/// `workers` connections that say DONE and take the next job for `span`; with `oneshot` each request has its
/// own.
pub(crate) fn run(socket: &Path, workers: usize, span: Duration, oneshot: bool) -> Result<Load> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let start = Instant::now();
        let end = start + span;
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let socket = socket.to_owned();
            tasks.spawn(async move {
                if oneshot { one_each(&socket, end).await } else { stay(&socket, end).await }
            });
        }
        let mut latencies = Vec::new();
        while let Some(done) = tasks.join_next().await {
            latencies.extend(done??);
        }
        Ok(Load { ops: latencies.len(), seconds: start.elapsed().as_secs_f64(), latencies })
    })
}

/// Connects, again and again until `end` while the program's backlog is full.
async fn connect(socket: &Path, end: Instant) -> Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < end => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            connected => return Ok(connected?),
        }
    }
}

async fn stay(socket: &Path, end: Instant) -> Result<Vec<Duration>> {
    let mut stream = BufReader::new(connect(socket, end).await?);
    let mut latencies = Vec::new();
    let mut request = b"READY\n".to_vec();
    let mut line = String::new();
    while Instant::now() < end {
        let begun = Instant::now();
        stream.get_mut().write_all(&request).await?;
        line.clear();
        stream.read_line(&mut line).await?;
        latencies.push(begun.elapsed());
        request = next(&line)?;
    }
    Ok(latencies)
}

async fn one_each(socket: &Path, end: Instant) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    let mut request = b"READY\n".to_vec();
    let mut line = String::new();
    while Instant::now() < end {
        let begun = Instant::now();
        let mut stream = BufReader::new(connect(socket, end).await?);
        stream.get_mut().write_all(&request).await?;
        stream.get_mut().shutdown().await?;
        line.clear();
        stream.read_line(&mut line).await?;
        latencies.push(begun.elapsed());
        request = next(&line)?;
    }
    Ok(latencies)
}

fn next(line: &str) -> Result<Vec<u8>> {
    let attr = line.split(' ').nth(1).with_context(|| format!("the queue ran dry: {line:?}"))?;
    Ok(format!("DONE {attr} 0\n").into_bytes())
}
