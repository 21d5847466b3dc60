//! Children that wait for each other, in the tree and as causes of `GET /v1/why`.

use std::{sync::Arc, time::Duration};

use orchestrator_admin::{Binding, ProgramInfo, child_spec};
use orchestrator_subsystem::wire::{Cause, Why};
use orchestrator_supervise::{
    ChildSpec, Factory, Mailbox, StartCx, Strategy, SupervisorSpec, inbox, mailbox,
    testing::{TestTree, eventually},
};

use tokio::sync::Barrier;

use crate::site::{self, AskOther, Site, Store};

/// Time-out of the asks of the deadlock.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Runs `test` on two stores, and a source whose inbox its reader does not read.
fn run<Fut: Future<Output = ()>>(test: impl FnOnce(Site, Mailbox<Store>) -> Fut) {
    let directory = tempfile::tempdir().unwrap();
    let [(a, slot_a), (b, slot_b)] = [mailbox::<Store>(4), mailbox::<Store>(4)];
    let store = |id, slot| ChildSpec::worker(id, Factory::actor(slot, |_| Ok(Store)));
    let (lines, slot) = inbox::<u32>(1);
    let idle = |cx: StartCx| async move {
        cx.stop.cancelled().await;
        Ok(())
    };
    let source = Factory::task(move |cx: StartCx| {
        let lines = lines.clone();
        async move {
            tokio::select! {
                () = async { while lines.send(1).await.is_ok() {} } => {}
                () = cx.stop.cancelled() => {}
            }
            Ok(())
        }
    });
    let demo = SupervisorSpec::new(Strategy::OneForOne)
        .child(store("a", slot_a))
        .child(store("b", slot_b))
        .child(ChildSpec::worker("reader", Factory::task(idle).with_inbox("lines", &slot)))
        .child(ChildSpec::worker("source", source));
    let admin = child_spec(&site::config(&directory), Binding::Required, ProgramInfo::default());
    let root =
        SupervisorSpec::new(Strategy::OneForOne).child(ChildSpec::supervisor("demo", demo)).child(admin);
    TestTree::run(root, |tree| async move {
        let link = tree.vitals("demo/a").unwrap().link("fake", "fake:1");
        let (tcp, socket) = (site::tcp_address(&tree), directory.path().join("admin.sock"));
        test(Site { tree, store: a, link, tcp, socket }, b).await;
        drop(directory);
    });
}

fn ask_each_other(a: &Mailbox<Store>, b: &Mailbox<Store>, timeout: Duration) {
    let barrier = Arc::new(Barrier::new(2));
    for (one, other) in [(a, b), (b, a)] {
        one.tell(AskOther { other: other.clone(), timeout, barrier: barrier.clone() }).unwrap();
    }
}

async fn causes(site: &Site) -> Vec<Cause> {
    let why: Why = serde_json::from_str(&site.get("/v1/why/demo").await.body).unwrap();
    why.subsystems.into_iter().next().unwrap().causes
}

#[test]
fn a_deadlocked_pair_is_named_first_until_the_asks_time_out() {
    run(|site, b| async move {
        ask_each_other(&site.store, &b, TIMEOUT);
        let deadlocked = |causes: &[Cause]| causes.iter().filter(|one| one.kind == "deadlocked").count();
        let found = site::wait_for("the deadlock", async || {
            Some(causes(&site).await).filter(|found| deadlocked(found) == 2)
        });
        let found = found.await;
        let pair: Vec<_> = found[..2].iter().map(|cause| (&*cause.kind, &*cause.path)).collect();
        assert_eq!(pair, [("deadlocked", "test/demo/a"), ("deadlocked", "test/demo/b")]);
        assert_eq!(found[0].text, "waits for demo/b, which waits for it");
        assert_eq!(found[0].help, "orchestrator restart demo/a");
        assert!(found[0].since_ms.is_some());
        let [first, second] = &found[0].evidence[..] else { panic!("{found:#?}") };
        assert!(
            first.starts_with("demo/a has waited ") && first.ends_with(" s for an answer of demo/b"),
            "{first}"
        );
        assert!(
            second.starts_with("demo/b has waited ") && second.ends_with(" s for an answer of demo/a"),
            "{second}"
        );
        let seconds: f64 = first.split(' ').nth(3).unwrap().parse().unwrap();
        assert!((1.0..=4.0).contains(&seconds), "{first}");
        let node = site.get("/v1/tree/demo/a").await.tree().root;
        assert_eq!((node.waits[0].on.as_str(), node.waits[0].kind.as_str()), ("test/demo/b", "answer"));
        // A part of the tree shows the deadlock with the other part, too.
        let part: Why = serde_json::from_str(&site.get("/v1/why/demo/b").await.body).unwrap();
        assert_eq!(part.subsystems[0].causes[0].kind, "deadlocked");
        eventually("the deadlock ends", || site.tree.node("demo/a").unwrap().waits.is_empty()).await;
        eventually("the other half, too", || site.tree.node("demo/b").unwrap().waits.is_empty()).await;
        assert_eq!(deadlocked(&causes(&site).await), 0);
    });
}

#[test]
fn a_restart_of_one_of_a_pair_ends_the_deadlock() {
    run(|site, b| async move {
        ask_each_other(&site.store, &b, Duration::from_secs(600));
        let help = site::wait_for("the deadlock", async || {
            let mut found = causes(&site).await.into_iter();
            found.find(|one| one.kind == "deadlocked").map(|cause| cause.help)
        });
        let help = help.await;
        let path = help.strip_prefix("orchestrator restart ").unwrap();
        // It ends after its time to stop, since its answer never comes.
        assert_eq!(site.post(&format!("/v1/actors/{path}/restart"), "{}").await.status, 200);
        eventually("both work again", || {
            ["demo/a", "demo/b"].iter().all(|path| {
                let node = site.tree.node(path).unwrap();
                node.waits.is_empty() && node.in_progress.is_none()
            })
        })
        .await;
    });
}

#[test]
fn a_full_mailbox_names_the_children_that_fill_it() {
    run(|site, _b| async move {
        eventually("the source waits", || !site.tree.node("demo/source").unwrap().waits.is_empty()).await;
        let is_full = |one: &Cause| one.kind == "mailbox_full";
        // A mailbox of one message is full while its reader works.
        assert!(!causes(&site).await.iter().any(is_full));
        let full = site::wait_for("the cause", async || causes(&site).await.into_iter().find(is_full)).await;
        let waited = site.tree.node("demo/source").unwrap().waits[0].for_ms;
        assert!(waited >= 5_000, "{waited}");
        assert_eq!(full.path, "test/demo/reader");
        assert_eq!(full.text, "`lines` is full: 1 messages wait");
        let last = full.evidence.last().unwrap();
        assert!(
            last.starts_with("demo/source has waited ") && last.ends_with(" s for room in demo/reader"),
            "{full:?}"
        );
    });
}
