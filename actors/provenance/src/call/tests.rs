//! Calls to the workers of this process: refused rows are dead letters first, and are then reported
//! by their positions.

use std::path::Path;

use orchestrator_supervise::{
    ChildRef, ChildSpec, Factory, Strategy, SupervisorSpec, inbox, testing::TestTree,
};
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{edge::dead_letters, messages::WriteRequest, range_workers, row::Sha1Git};

/// The store refuses contents whose last byte is odd.
fn workers(file: &Path) -> (Workers, SupervisorSpec) {
    let (writes, slot) = inbox::<WriteRequest>(80);
    let store = slot.clone();
    let factory = Factory::task(move |cx| {
        let mut requests = store.open();
        async move {
            while let Some(WriteRequest { rows, reply }) = requests.next(&cx).await {
                let Rows::Contents(rows) = rows else { panic!("contents") };
                let odd = (0..).zip(rows).filter(|(_, (id, _))| id.0[19] % 2 == 1);
                let refusal = |(index, _)| Refusal { index, reason: "odd".to_owned() };
                let _ = reply.send(odd.map(refusal).collect());
            }
            Ok(())
        }
    });
    let (mailboxes, pool) = range_workers(10, &writes);
    let store = ChildSpec::worker("store", factory.with_inbox("writes", &slot));
    let (letters, slot) = inbox(8);
    let letters_child = ChildSpec::worker("dead_letters", dead_letters::factory(file, &slot));
    let tree = SupervisorSpec::new(Strategy::RestForOne).child(store).child(pool).child(letters_child);
    (Workers::new(mailboxes, ChildRef::default(), letters), tree)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn refused_rows_are_reported_by_position(
        ends in vec((any::<u8>(), any::<u8>()), 0..60),
        batch in 1_usize..8,
        routing in prop::sample::select(vec![Routing::FirstByte, Routing::FirstHexDigit]),
    ) {
        // The identifier contains the position, so none repeats.
        let id = |(position, &(first, last)): (usize, &(u8, u8))| {
            let mut id = Sha1Git([position as u8; 20]);
            (id.0[0], id.0[19]) = (first, last);
            (id, None)
        };
        let rows = Rows::Contents(ends.iter().enumerate().map(id).collect());
        let odd = ends.iter().enumerate().filter(|(_, (_, last))| last % 2 == 1);
        let odd: Vec<_> = odd.map(|(position, _)| position as u32).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let (workers, spec) = workers(&folder.path().join("letters.db"));
        let mut receipt = None;
        TestTree::run(spec, async |_tree| {
            let route = Route { routing, batch: 100, transport: Transport::Embedded(workers) };
            receipt = Some(route.add(rows, Some(batch)).await);
        });
        let receipt = receipt.expect("it ran").expect("a receipt");
        prop_assert_eq!(receipt.stored, (ends.len() - odd.len()) as u64);
        prop_assert!(receipt.refused.iter().all(|refusal| refusal.reason == "odd"));
        prop_assert_eq!(receipt.refused.iter().map(|refusal| refusal.index).collect::<Vec<_>>(), odd);
    }
}
