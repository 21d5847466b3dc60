//! A supervised pool of four workers. A job that panics ends one worker; its supervisor restarts it, and no
//! waiting job is lost.
//!
//! Run it with `cargo run -p orchestrator-supervise --example pool`.

#![allow(clippy::print_stdout, reason = "an example prints what happens")]

use std::{error::Error, time::Duration};

use orchestrator_supervise::{
    AskError, Child, ChildCx, ChildSpec, Factory, Handle, Handled, Mailbox, Message, Root, Strategy,
    SupervisorSpec, mailbox,
};

const TIMEOUT: Duration = Duration::from_secs(5);

struct Worker;

/// Message: compute the square root of a number.
struct SquareRoot(i64);

impl Message for SquareRoot {
    type Result = f64;
}

impl Child for Worker {}

impl Handle<SquareRoot> for Worker {
    fn handle(&mut self, SquareRoot(number): SquareRoot, _cx: &mut ChildCx<'_, Self>) -> Handled<Self, f64> {
        assert!(number >= 0, "no square root of {number}");
        Handled::now((number as f64).sqrt())
    }
}

fn spec() -> (Vec<Mailbox<Worker>>, SupervisorSpec) {
    let (mailboxes, slots): (Vec<_>, Vec<_>) = (0..4).map(|_| mailbox::<Worker>(16)).unzip();
    let slots = std::sync::Mutex::new(slots.into_iter().map(Some).collect::<Vec<_>>());
    // Called once for each worker. The inner closure creates the incarnations.
    let pool = ChildSpec::pool("workers", 4, move |i| {
        let slot = slots.lock().expect("no panic")[i].take().expect("one call per worker");
        Factory::actor(slot, |_| Ok(Worker))
    });
    (mailboxes, SupervisorSpec::new(Strategy::OneForOne).child(pool))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mailboxes, spec) = spec();
    actix_rt::System::new().block_on(async {
        let mut root = Root::start("example", spec).await?;
        for (number, worker) in [4, 9, -1, 16].into_iter().zip(&mailboxes) {
            match worker.ask(SquareRoot(number), TIMEOUT).await {
                Ok(result) => println!("the square root of {number} is {result}"),
                Err(AskError::Lost) => println!("the worker of {number} panicked; only this job is lost"),
                Err(error) => return Err(error.into()),
            }
        }
        // The mailbox outlives the incarnation: the next one answers.
        let result = mailboxes[2].ask(SquareRoot(25), TIMEOUT).await?;
        println!("the same mailbox again: the square root of 25 is {result}");
        for worker in root.tree().node("workers").map(|pool| pool.children).unwrap_or_default() {
            let exit = worker.last_exit.map_or_else(|| "none".to_owned(), |exit| exit.reason);
            println!("{}: incarnation {}, last exit: {exit}", worker.path, worker.incarnation);
        }
        println!("stopped: {}", root.stop().await);
        Ok(())
    })
}
