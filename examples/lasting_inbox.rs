//! A task with an inbox that outlives its incarnations, and with durable state. The task fails at every third
//! item; the items behind it are received by the next incarnation.
//!
//! Run it with `cargo run -p orchestrator-supervise --example lasting_inbox`.

#![allow(clippy::print_stdout, reason = "an example prints what happens")]

use std::{error::Error, time::Duration};

use orchestrator_supervise::{
    Backoff, ChildSpec, Durable, Factory, Fault, Limits, Outbox, Root, StartCx, State, Strategy,
    SupervisorSpec, inbox,
};

fn spec(sum: &Durable<u32>) -> (Outbox<u32>, SupervisorSpec) {
    let (outbox, slot) = inbox::<u32>(16);
    let (items, state) = (slot.clone(), sum.clone());
    let task = Factory::task(move |cx: StartCx| {
        let (mut items, state) = (items.open(), state.clone());
        async move {
            println!("incarnation {} starts", cx.incarnation);
            while let Some(item) = items.next(&cx).await {
                let _work = cx.vitals.begin_work("add item");
                if item % 3 == 0 {
                    println!("item {item} fails");
                    return Err(Fault::new(format!("item {item} is divisible by three")));
                }
                let sum = state.update(|sum| {
                    *sum += item;
                    *sum
                });
                println!("item {item} is added, the sum is {sum}");
            }
            Ok(())
        }
    });
    let child = ChildSpec::worker("adder", task.with_inbox("items", &slot)).durable(sum);
    let backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_millis(200) };
    let limits = Limits { intensity: 5, period: Duration::from_secs(30), backoff };
    (outbox, SupervisorSpec::new(Strategy::OneForOne).limits(limits).child(child))
}

fn main() -> Result<(), Box<dyn Error>> {
    let sum = Durable::new("sum", 0);
    let (outbox, spec) = spec(&sum);
    actix_rt::System::new().block_on(async {
        let mut root = Root::start("example", spec).await?;
        for item in 1..=7 {
            outbox.send(item).await?;
        }
        // Wait until the second restart is up, which receives the last item.
        let (mut seen, log) = (0, root.tree().event_log().clone());
        while root
            .tree()
            .node("adder")
            .is_some_and(|node| node.incarnation < 3 || node.state != State::Running)
        {
            log.wait_after(seen).await;
            seen = log.newest();
        }
        println!("stopped: {}", root.stop().await); // the task receives all waiting items first
        println!("the sum is {}", sum.get());
        assert_eq!(sum.get(), 1 + 2 + 4 + 5 + 7);
        Ok(())
    })
}
