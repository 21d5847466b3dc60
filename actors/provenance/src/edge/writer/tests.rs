//! Writer over a store that refuses rows.

use std::sync::Arc;

use bytes::Bytes;
use orchestrator_supervise::{
    ChildSpec, Factory, Outbox, Pending, Strategy, SupervisorSpec, inbox, reply, testing::TestTree,
};

use super::*;
use crate::{
    messages::Refusal,
    store::{Query, QueryResult, StoreReader},
};

/// Locations from this number on are stored; smaller ones are refused.
const GOOD: u32 = 1_000;
/// Locations below this number may be at fault.
const UNDECIDED: u32 = 10;

/// Writes with their times.
type Writes = Arc<parking_lot::Mutex<Vec<(Instant, Vec<u32>)>>>;

/// Store that refuses bad rows, and receives one more good row with each refused part.
struct RefusingStore {
    writes: Writes,
    inbox: Outbox<WriteRequest>,
}

impl StoreReader for RefusingStore {
    async fn read(&mut self, _: &Query) -> Result<QueryResult, StoreError> {
        Err(StoreError::Refused("not asked".to_owned()))
    }
}

impl Store for RefusingStore {
    async fn write(&mut self, groups: &[Rows]) -> Result<OmittedRows, StoreError> {
        let [Rows::Locations(paths)] = groups else { panic!("locations") };
        let numbers: Vec<u32> =
            paths.iter().map(|path| u32::from_be_bytes(path[..].try_into().expect("a number"))).collect();
        let below = |max| numbers.iter().any(|number| *number < max);
        let (is_refused, is_undecided) = (below(GOOD), below(UNDECIDED));
        let count = {
            let mut writes = self.writes.lock();
            writes.push((Instant::now(), numbers));
            writes.len() as u32
        };
        if is_refused {
            let (good, _) = request([GOOD + count]);
            self.inbox.send(good).await.expect("it is open");
            let error = if is_undecided { StoreError::Undecided } else { StoreError::Refused };
            return Err(error("bad".to_owned()));
        }
        Ok(OmittedRows::default())
    }
}

fn request(numbers: impl IntoIterator<Item = u32>) -> (WriteRequest, Pending<Vec<Refusal>>) {
    let paths = numbers.into_iter().map(|number| Bytes::copy_from_slice(&number.to_be_bytes()));
    let (reply, answer) = reply();
    (WriteRequest { rows: Rows::Locations(paths.collect()), reply }, answer)
}

/// Writes `numbers`; returns the refusals and all writes of the store.
fn write(numbers: impl IntoIterator<Item = u32>) -> (Vec<Refusal>, Vec<(Instant, Vec<u32>)>) {
    let writes = Writes::default();
    let (outbox, slot) = inbox(8);
    let (store_writes, store_inbox, taken) = (writes.clone(), outbox.clone(), slot.clone());
    let factory = Factory::task(move |cx| {
        let (writes, inbox, slot) = (store_writes.clone(), store_inbox.clone(), taken.clone());
        async move {
            let link = LinkState::new(&cx, "store", "here", RetryPolicy::LOCAL);
            let connect = async || Ok(RefusingStore { writes: writes.clone(), inbox: inbox.clone() });
            run(&cx, &slot, link, 1, connect).await
        }
    });
    let writer = ChildSpec::worker("writer", factory.with_inbox("writes", &slot));
    let (request, answer) = request(numbers);
    let mut refusals = None;
    TestTree::run(SupervisorSpec::new(Strategy::OneForOne).child(writer), async |_tree| {
        outbox.send(request).await.expect("it is open");
        refusals = answer.await.ok();
    });
    let writes = writes.lock().clone();
    (refusals.expect("an answer"), writes)
}

#[test]
fn other_requests_are_written_between_parts_of_a_refused_group() {
    let (refusals, writes) = write(UNDECIDED..UNDECIDED + 64);
    assert_eq!(refusals.len(), 64);
    let is_refused = |numbers: &[u32]| numbers.iter().any(|number| *number < GOOD);
    let refused = writes.iter().filter(|(_, numbers)| is_refused(numbers)).count();
    assert_eq!(refused, 63 + 64 * 3, "halves, and three tries of each row");
    for pair in writes.windows(2) {
        assert!(!is_refused(&pair[0].1) || !is_refused(&pair[1].1), "{pair:?}");
    }
}

#[test]
fn a_refused_row_is_tried_three_times_with_pauses() {
    let (refusals, writes) = write([UNDECIDED, GOOD]);
    assert_eq!(refusals, [Refusal { index: 0, reason: "bad".to_owned() }]);
    let tries: Vec<Instant> =
        writes.iter().filter(|(_, numbers)| *numbers == [UNDECIDED]).map(|(at, _)| *at).collect();
    let pauses: Vec<Duration> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses.len(), 2);
    for (pause, least_ms) in pauses.iter().zip([40, 80]) {
        assert!(*pause >= Duration::from_millis(least_ms), "{pauses:?}");
    }
}

#[test]
fn a_group_with_an_undecided_error_is_written_again_five_times_and_then_bisected() {
    let (refusals, writes) = write([0, GOOD, GOOD + 500, GOOD + 501]);
    assert_eq!(refusals, [Refusal { index: 0, reason: "bad".to_owned() }]);
    let lengths: Vec<usize> =
        writes.iter().filter(|(_, numbers)| numbers.contains(&0)).map(|(_, numbers)| numbers.len()).collect();
    assert_eq!(
        lengths,
        [4, 4, 4, 4, 4, 4, 2, 1, 1, 1],
        "the group six times, its halves, the row three times"
    );
}
