//! A source of one's own: a thread child that reads from a blocking API and sends into an inbox. The inbox
//! has room for four items, so the source waits for the slow consumer (back-pressure).
//!
//! Run it with `cargo run -p orchestrator-supervise --example source`.

#![allow(clippy::print_stdout, reason = "an example prints what happens")]

use std::{error::Error, time::Duration};

use orchestrator_observe::MetricKind;
use orchestrator_supervise::{
    ChildSpec, Factory, Restart, Root, StartCx, State, Strategy, SupervisorSpec, inbox,
};

const LINES: usize = 20;

fn spec() -> SupervisorSpec {
    let (outbox, slot) = inbox::<String>(4);

    let lines = slot.clone();
    let consumer = Factory::task(move |cx: StartCx| {
        let mut lines = lines.open();
        async move {
            while let Some(line) = lines.next(&cx).await {
                tokio::time::sleep(Duration::from_millis(50)).await; // the work for one line
                println!("consumed {line}");
            }
            Ok(())
        }
    });

    let lines = outbox.clone();
    let source = Factory::thread(move |cx: StartCx| {
        let help = "Lines read by the source.";
        let read = cx.vitals.register("lines", "lines", MetricKind::Counter, help);
        for number in 1..=LINES {
            let line = format!("line {number}"); // a read that may block
            // Blocks while the inbox is full. An error means that the child must stop.
            if lines.send_blocking(line, &cx.stop).is_err() {
                break;
            }
            read.add(1);
            println!("read line {number}");
        }
        Ok(())
    });

    // Sinks first, sources last: they stop in reverse, so that the consumer drains what the source has sent.
    // A transient child is not restarted after a normal end.
    SupervisorSpec::new(Strategy::RestForOne)
        .child(ChildSpec::worker("consumer", consumer.with_inbox("lines", &slot)))
        .child(ChildSpec::worker("source", source).restart(Restart::Transient).waits_for(&outbox))
}

fn main() -> Result<(), Box<dyn Error>> {
    actix_rt::System::new().block_on(async {
        let mut root = Root::start("example", spec()).await?;
        let (mut seen, log) = (0, root.tree().event_log().clone());
        while root.tree().node("source").is_some_and(|source| source.state != State::Stopped) {
            log.wait_after(seen).await;
            seen = log.newest();
        }
        println!("the source has ended; stopping");
        let exit = root.stop().await;
        let consumer = root.tree().node("consumer").ok_or("no consumer")?;
        println!("stopped: {exit}; {} lines handled", consumer.mailboxes[0].handled);
        assert_eq!(consumer.mailboxes[0].handled, LINES as u64);
        Ok(())
    })
}
