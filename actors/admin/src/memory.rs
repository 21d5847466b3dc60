//! The memory budget of the process, and the cause at the root while the process is above it. No I/O.

use orchestrator_observe::{MetricSnapshot, NodeSnapshot, TreeSnapshot, without_root};
use orchestrator_subsystem::wire::Cause;
use parking_lot::Mutex;

/// Memory of the program besides the queues of its children, in bytes: code and threads, page caches of the
/// databases, the history and crash reports. deploy/REFERENCE.md has the parts.
const BASE_BYTES: u64 = 256 << 20;
/// Most queues that are named.
const NAMED_MAX: usize = 3;

/// Budget of the process, and whether it is exceeded.
#[derive(Debug)]
pub(crate) struct Memory {
    configured: Option<u64>,
    /// Time since which the process is above its budget, in milliseconds since 1970.
    above_since_ms: Mutex<Option<u64>>,
}

/// A queue that holds memory, at the path of its child.
type Queue<'a> = (&'a str, &'a MetricSnapshot);

impl Memory {
    /// Creates the budget. `configured` replaces the computed one, in bytes.
    pub(crate) fn new(configured: Option<u64>) -> Self {
        Self { configured, above_since_ms: Mutex::default() }
    }

    /// In bytes: the configured budget, or the sum of the base and the bounds of all queues.
    pub(crate) fn budget(&self, root: &NodeSnapshot) -> u64 {
        let bounds = || queues(root).into_iter().filter_map(|(_, queue)| queue.bound);
        self.configured.unwrap_or_else(|| bounds().fold(BASE_BYTES, u64::saturating_add))
    }

    /// Cause if the process, which uses `resident` bytes, is above its budget. The cause ends a twentieth
    /// below the budget, so that it does not come and go.
    pub(crate) fn cause(&self, snapshot: &TreeSnapshot, resident: u64) -> Option<Cause> {
        let budget = self.budget(&snapshot.root);
        let mut since_ms = self.above_since_ms.lock();
        if resident > budget {
            since_ms.get_or_insert(snapshot.captured_at_ms);
        } else if resident < budget - budget / 20 {
            *since_ms = None;
        }
        let since_ms = Some((*since_ms)?);
        let place = if resident > budget { "above" } else { "just below" };
        let (used, of) = (resident.div_ceil(1 << 20), mib(budget));
        let text = format!("the process uses {used} MiB of memory, {place} its budget of {of}");
        let mut queues = queues(&snapshot.root);
        queues.retain(|(_, queue)| queue.value > 0);
        queues.sort_by_key(|(_, queue)| std::cmp::Reverse(queue.value));
        let largest = queues.first().map(|(path, _)| format!(" {}", without_root(path)));
        let mut evidence: Vec<_> = queues.into_iter().take(NAMED_MAX).map(describe).collect();
        if evidence.is_empty() {
            evidence.push("nothing waits in any queue".to_owned());
        }
        evidence.push(match self.configured {
            Some(_) => "the budget is that of admin.memory_budget".to_owned(),
            None => {
                format!("the budget is {} for the program, and the bounds of all queues", mib(BASE_BYTES))
            }
        });
        let help = format!(
            "orchestrator tree{}; OrchestratorMemoryAboveBudget in the runbook",
            largest.unwrap_or_default()
        );
        let (kind, path) = ("memory_above_budget".to_owned(), snapshot.root.path.clone());
        Some(Cause { kind, path, text, since_ms, evidence, help, affects: Vec::new(), routine: false })
    }
}

/// Queues of the tree that have a bound.
fn queues(root: &NodeSnapshot) -> Vec<Queue<'_>> {
    let mut queues = Vec::new();
    root.walk(&mut |node| {
        let bounded = node.metrics.iter().filter(|metric| metric.bound.is_some());
        queues.extend(bounded.map(|queue| (node.path.as_str(), queue)));
    });
    queues
}

fn describe((path, queue): Queue<'_>) -> String {
    let peer = queue.label.as_ref().map(|label| format!(", {} {}", label.name, label.value));
    let (held, bound) = (u64::try_from(queue.value).unwrap_or(0), queue.bound.unwrap_or(0));
    let (path, peer) = (without_root(path), peer.unwrap_or_default());
    format!("{path}{peer}: `{}` has {held} of at most {bound} bytes", queue.name)
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use orchestrator_observe::LabelSnapshot;

    use super::*;
    use crate::history::tests::tree;

    const MIB: u64 = 1 << 20;

    /// A tree whose children `o/c0`, `o/c1` and so on have a queue with these bytes and a bound of 64 MiB.
    fn holding(at_ms: u64, held: &[u64]) -> TreeSnapshot {
        let mut tree = tree(held.len() as u64, 1, at_ms);
        for (child, held) in tree.root.children.iter_mut().zip(held) {
            let queue = &mut child.metrics[0];
            queue.label = Some(LabelSnapshot { name: "worker".to_owned(), value: "w1".to_owned() });
            (queue.value, queue.bound) = (*held as i64, Some(64 * MIB));
        }
        tree
    }

    #[test]
    fn the_budget_is_the_base_and_the_bounds_of_all_queues_unless_it_is_configured() {
        let root = holding(1, &[0, 1, 2]).root;
        assert_eq!(Memory::new(None).budget(&root), BASE_BYTES + 3 * 64 * MIB);
        assert_eq!(Memory::new(None).budget(&tree(4, 1, 1).root), BASE_BYTES, "other metrics have no bound");
        assert_eq!(Memory::new(Some(MIB)).budget(&root), MIB);
    }

    #[test]
    fn the_largest_queues_are_named_with_their_bytes_and_bounds() {
        let memory = Memory::new(Some(512 * MIB));
        let cause = memory.cause(&holding(7, &[5, 70, 0, 6, 9]), 811 * MIB + 1).expect("a cause");
        assert_eq!((cause.path.as_str(), cause.since_ms), ("o", Some(7)));
        assert_eq!(cause.text, "the process uses 812 MiB of memory, above its budget of 512 MiB");
        let named =
            |child, held| format!("{child}, worker w1: `rows_0` has {held} of at most 67108864 bytes");
        let configured = "the budget is that of admin.memory_budget".to_owned();
        assert_eq!(cause.evidence, [named("c1", 70), named("c4", 9), named("c3", 6), configured]);
        assert!(cause.help.starts_with("orchestrator tree c1; "), "{cause:?}");
        let leak = Memory::new(None).cause(&holding(7, &[0]), 321 * MIB).expect("a cause");
        assert_eq!(leak.evidence[0], "nothing waits in any queue");
        assert!(leak.help.starts_with("orchestrator tree; "), "{leak:?}");
    }

    #[test]
    fn the_cause_begins_above_the_budget_and_ends_a_twentieth_below_it() {
        let memory = Memory::new(Some(100 * MIB));
        let since = |at_ms, mib| memory.cause(&holding(at_ms, &[]), mib * MIB)?.since_ms;
        let seen = [(1, 99), (2, 100), (3, 101), (4, 99), (5, 120), (6, 95), (7, 94), (8, 99), (9, 101)];
        let causes = seen.map(|(at_ms, mib)| since(at_ms, mib));
        assert_eq!(causes, [None, None, Some(3), Some(3), Some(3), Some(3), None, None, Some(9)]);
        let text = memory.cause(&holding(10, &[]), 97 * MIB).expect("still a cause").text;
        assert_eq!(text, "the process uses 97 MiB of memory, just below its budget of 100 MiB");
    }
}
