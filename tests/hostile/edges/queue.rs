//! The worker socket. The monitored worker is another client of the same socket.

use std::sync::Arc;

use orchestrator_harness::{Reply, TestEnv, Worker};

use crate::{
    client::Endpoint,
    edge::{Edge, Plan, Side},
    generator::Protocol,
    protocols::WorkerLine,
};

struct WorkerSocket {
    side: Side,
    answered: u64,
}

/// The queue's unix socket.
pub(crate) fn worker_socket(_plan: &Plan) -> Box<dyn Edge> {
    let side = Side::Clients(Box::new(|env| Endpoint::Unix(env.socket())));
    Box::new(WorkerSocket { side, answered: 0 })
}

impl Edge for WorkerSocket {
    fn protocol(&self) -> Arc<dyn Protocol> {
        Arc::new(WorkerLine)
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        String::new()
    }

    fn budget(&self) -> u64 {
        // A request of 65,536 bytes for each connection; the attack has 16 connections at a time, 64 silent
        // ones.
        64 * 65_536
    }

    /// Number of new workers that received an answer.
    fn done(&mut self, env: &TestEnv) -> u64 {
        let asked = Worker::connect(&env.socket()).and_then(|mut worker| {
            worker.send(b"READY\n")?;
            worker.try_reply()
        });
        self.answered += u64::from(matches!(asked, Ok(Reply::Job { .. } | Reply::NoJobs)));
        self.answered
    }
}
