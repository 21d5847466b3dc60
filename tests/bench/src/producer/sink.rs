//! A server that does the least that any must do with a `PUSHB`: read each job, keep it in its queue, answer.

use std::{
    collections::{HashMap, VecDeque},
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
};

use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

/// Jobs of a queue that it keeps; older ones are dropped, as if workers had taken them.
const KEPT: usize = 10_000;

/// Fields of a job that the server reads.
#[derive(Deserialize)]
#[expect(dead_code, reason = "kept, and never handed out")]
struct Job {
    jid: String,
    queue: String,
    jobtype: String,
    args: Vec<Value>,
    retry: i32,
    reserve_for: u32,
    backtrace: u32,
    custom: Option<Value>,
}

/// Where it listens.
#[derive(Debug, Args)]
pub(crate) struct Sink {
    /// Port for the pushing
    #[arg(long)]
    pub(super) listen: u16,
}

impl Sink {
    /// Serves until it is killed.
    pub(crate) fn run(&self) -> Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", self.listen))?;
        let taken = Arc::new(AtomicU64::new(0));
        for stream in listener.incoming() {
            let (stream, taken) = (stream?, taken.clone());
            // Who hangs up in the middle is not served any more.
            thread::spawn(move || drop(serve(stream, &taken)));
        }
        Ok(())
    }
}

/// `taken` counts the jobs of all connections.
fn serve(stream: TcpStream, taken: &AtomicU64) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(256 << 10, stream);
    reader.get_mut().write_all(b"+HI {\"v\":2}\r\n")?;
    let (mut line, mut queues) = (Vec::new(), HashMap::<String, VecDeque<Job>>::new());
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let reply = if let Some(jobs) = line.strip_prefix(b"PUSHB ") {
            match serde_json::from_slice::<Vec<Job>>(jobs) {
                Ok(jobs) => {
                    taken.fetch_add(jobs.len() as u64, SeqCst);
                    jobs.into_iter().for_each(|job| keep(&mut queues, job));
                    "$2\r\n{}\r\n".to_owned()
                }
                Err(error) => format!("-ERR {error}\r\n"),
            }
        } else if line.starts_with(b"INFO") {
            let info = info(taken.load(SeqCst));
            format!("${}\r\n{info}\r\n", info.len())
        } else if line.starts_with(b"END") {
            return Ok(());
        } else {
            "+OK\r\n".to_owned()
        };
        reader.get_mut().write_all(reply.as_bytes())?;
    }
}

/// Whatever it took is done.
fn info(taken: u64) -> String {
    format!(
        r#"{{"faktory":{{"queues":{{}},"sets":{{"dead":0,"retries":0,"scheduled":0,"working":0}},"total_processed":{taken}}}}}"#
    )
}

fn keep(queues: &mut HashMap<String, VecDeque<Job>>, job: Job) {
    let queue = queues.entry(job.queue.clone()).or_default();
    if queue.len() == KEPT {
        queue.pop_front();
    }
    queue.push_back(job);
}
