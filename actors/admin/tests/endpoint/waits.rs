//! Children that wait for others, as causes of `GET /v1/why`.

use orchestrator_admin::{Binding, ProgramInfo, child_spec};
use orchestrator_subsystem::wire::{Cause, Why};
use orchestrator_supervise::{
    ChildSpec, Factory, StartCx, Strategy, SupervisorSpec, inbox, mailbox,
    testing::{TestTree, eventually},
};

use crate::site::{self, Site, Store};

/// Runs `test` on a store, and a source whose inbox its reader does not read.
fn run<Fut: Future<Output = ()>>(test: impl FnOnce(Site) -> Fut) {
    let directory = tempfile::tempdir().unwrap();
    let (store, store_slot) = mailbox::<Store>(4);
    let (lines, slot) = inbox::<u32>(1);
    let idle = |cx: StartCx| async move {
        cx.stop.cancelled().await;
        Ok(())
    };
    let filled = lines.clone();
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
        .child(ChildSpec::worker("a", Factory::actor(store_slot, |_| Ok(Store))))
        .child(ChildSpec::worker("reader", Factory::task(idle).with_inbox("lines", &slot)))
        .child(ChildSpec::worker("source", source).waits_for(&filled));
    let admin = child_spec(&site::config(&directory), Binding::Required, ProgramInfo::default());
    let root =
        SupervisorSpec::new(Strategy::OneForOne).child(ChildSpec::supervisor("demo", demo)).child(admin);
    TestTree::run(root, |tree| async move {
        let link = tree.vitals("demo/a").unwrap().link("fake", "fake:1");
        let (tcp, socket) = (site::tcp_address(&tree), directory.path().join("admin.sock"));
        test(Site { tree, store, link, tcp, socket }).await;
        drop(directory);
    });
}

async fn causes(site: &Site) -> Vec<Cause> {
    let why: Why = serde_json::from_str(&site.get("/v1/why/demo").await.body).unwrap();
    why.subsystems.into_iter().next().unwrap().causes
}

#[test]
fn a_full_mailbox_names_the_children_that_fill_it() {
    run(|site| async move {
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
