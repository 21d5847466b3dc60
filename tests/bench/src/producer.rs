//! Jobs through the Faktory edge, beside a bare client that sends the same bytes: the calibration K.
//!
//! K has all its commands ready before its clock starts; ours makes each job when its batch is made: name,
//! JSON, hand-over to the child, the child's push, and the outcome. Both keep to one command at a time on
//! each connection.

mod sink;
mod whole;

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    time::Instant,
};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use orchestrator_harness::{Faktory as FakeServer, free_port, wait_for};
use orchestrator_producer::bench::{PendingPush, PoolOptions, Server, child_spec};
use orchestrator_producer_rules::{
    batch::Batch,
    id::Id,
    job::{Jid, Job, JobOptions, JobWriter},
    pair::Pair,
};
use orchestrator_supervise::{Root, Strategy, SupervisorSpec};
use serde_json::{Value, json};

pub(crate) use self::sink::Sink;
use crate::{
    calibration::{median, of_neighbours},
    ingester::Process,
};

/// Batches that are handed over before the first one's outcome is waited for.
const AHEAD: usize = 3;

/// Options of the producer bench.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Jobs of each round
    #[arg(long, default_value_t = 300_000)]
    jobs: u32,
    /// Jobs of a batch
    #[arg(long, default_value_t = 1_000)]
    chunk: u32,
    /// Connections of ours; K has one
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Times that ours is measured, each time between two of K
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The real binary, from documents to jobs, in place of the edge alone: --jobs pairs of as many pages of
    /// each set
    #[arg(long)]
    whole: bool,
    /// Server that receives the jobs
    #[arg(long, value_enum, default_value_t = Peer::Sink)]
    to: Peer,
}

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// One that reads and keeps jobs, and does nothing else
    Sink,
    /// The tests' stand-in, in Python
    FakeServer,
}

/// A running server, and its port. Dropped, it is gone.
enum Running {
    Sink(u16, #[expect(dead_code, reason = "ends it when dropped")] Process),
    FakeServer(FakeServer),
}

pub(crate) fn run(binary: &Path, options: &Options) -> Result<Value> {
    if options.whole {
        return whole::run(binary, options);
    }
    ensure!(
        options.chunk >= 2 && options.jobs >= options.chunk,
        "give --chunk 2 or more, and --jobs a chunk"
    );
    let commands = commands(options);
    let (mut k, mut ours) = (vec![bare(options, &commands)?], Vec::new());
    for _ in 0..options.rounds {
        ours.push(pushed(options)?);
        k.push(bare(options, &commands)?);
    }
    let of_k = of_neighbours(&ours, &k);
    let bytes: usize = commands.iter().map(Vec::len).sum();
    let rounded = |figure: f64| (figure * 100.0).round() / 100.0;
    Ok(json!({
        "bench": "producer", "to": format!("{:?}", options.to), "jobs": options.jobs, "chunk": options.chunk,
        "connections": options.connections, "bytes_a_job": bytes / options.jobs as usize,
        "k_jobs_per_s": median(k).round(),
        "jobs_per_s": median(ours).round(),
        "of_k": rounded(median(of_k.clone())),
        "of_k_each": of_k.into_iter().map(rounded).collect::<Vec<_>>(),
    }))
}

/// Jobs a second of ours.
fn pushed(options: &Options) -> Result<f64> {
    let peer = Running::start(options.to)?;
    let server =
        Server::new(&format!("tcp://localhost:{}", peer.port()), None, None).map_err(anyhow::Error::msg)?;
    let flow = PoolOptions { connections: options.connections, ..PoolOptions::default() };
    actix_rt::System::new().block_on(async {
        let (faktory, connections) = child_spec(server, flow);
        let mut root =
            Root::start("bench", SupervisorSpec::new(Strategy::OneForOne).child(connections)).await?;
        // The connections are there.
        faktory.info().await?;
        let writer = JobWriter::new(&JobOptions::default()).map_err(anyhow::Error::msg)?;
        let begun = Instant::now();
        let mut pending = VecDeque::new();
        for (number, first) in (0..options.jobs).step_by(options.chunk as usize).enumerate() {
            if pending.len() >= AHEAD * options.connections
                && let Some(outcome) = pending.pop_front()
            {
                settled(outcome).await?;
            }
            pending.push_back(faktory.submit(number, batch(&writer, options, first)).await);
        }
        for outcome in pending {
            settled(outcome).await?;
        }
        let rate = f64::from(options.jobs) / begun.elapsed().as_secs_f64();
        root.stop().await;
        Ok(rate)
    })
}

async fn settled(outcome: PendingPush) -> Result<()> {
    let pushed = outcome.await?;
    ensure!(pushed.is_none(), "jobs are refused: {pushed:?}");
    Ok(())
}

/// Jobs a second of K.
fn bare(options: &Options, commands: &[Vec<u8>]) -> Result<f64> {
    let peer = Running::start(options.to)?;
    let stream = TcpStream::connect(("127.0.0.1", peer.port()))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut reply = String::new();
    reader.read_line(&mut reply)?;
    reader.get_mut().write_all(b"HELLO {\"v\":2}\r\n")?;
    reader.read_line(&mut reply)?;
    let begun = Instant::now();
    for command in commands {
        reader.get_mut().write_all(command)?;
        reply.clear();
        reader.read_line(&mut reply)?;
        reader.read_line(&mut reply)?;
        ensure!(reply == "$2\r\n{}\r\n", "jobs are refused: {reply:?}");
    }
    Ok(f64::from(options.jobs) / begun.elapsed().as_secs_f64())
}

/// Bytes that the calibration client K sends, the same as the edge's.
fn commands(options: &Options) -> Vec<Vec<u8>> {
    let writer = JobWriter::new(&JobOptions::default()).expect("the original's terms");
    let firsts = (0..options.jobs).step_by(options.chunk as usize);
    firsts.filter_map(|first| Some(batch(&writer, options, first).into_command()?.bytes().to_vec())).collect()
}

fn batch(writer: &JobWriter, options: &Options, first: u32) -> Batch {
    let mut batch = Batch::with_room_for(options.chunk as usize);
    for number in first..options.jobs.min(first + options.chunk) {
        let mut id = [0; 12];
        id[8..].copy_from_slice(&number.to_be_bytes());
        let (root_id, scion_id) = (Id(id), Id([0xab; 12]));
        let pair = Pair { root_id, root_tcn: 11, scion_id, scion_tcn: 13, page_size: 500 };
        let job = Job { jid: Jid::derived(&pair, 1, 0), pair, keyed: true };
        assert!(batch.add(writer, &job), "a chunk fits into a batch");
    }
    batch
}

impl Running {
    fn start(peer: Peer) -> Result<Self> {
        if peer == Peer::FakeServer {
            return Ok(Self::FakeServer(FakeServer::start(&[])));
        }
        let port = free_port();
        let mut command = Command::new(std::env::current_exe()?);
        let process = Process::start(command.args(["faktory-sink", "--listen", &port.to_string()]))?;
        wait_for("the sink to listen", || TcpStream::connect(("127.0.0.1", port)).ok());
        Ok(Self::Sink(port, process))
    }

    fn port(&self) -> u16 {
        match self {
            Self::Sink(port, _) => *port,
            Self::FakeServer(server) => server.port(),
        }
    }
}
