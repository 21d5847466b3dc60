//! Fields of a node that the endpoint fills: the state as all views show it, and whether the child has a
//! console. The state is `paused` also by a subsystem's own command, and `blocked` while a cause of
//! `GET /v1/why` holds the child up, except routine ones. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use orchestrator_observe::NodeSnapshot;
use orchestrator_subsystem::wire::Cause;
use orchestrator_supervise::State;

use crate::readiness::STOPPING;

const BLOCKED: &str = "blocked";
/// States from the worst to the best.
const ORDER: [&str; 9] =
    ["given_up", "stuck", "backing_off", "stopped", "stopping", "starting", BLOCKED, "paused", "running"];

/// Marks the children at `paths` as those with a console.
pub(crate) fn mark_consoles(root: &mut NodeSnapshot, paths: &BTreeSet<String>) {
    root.console = paths.contains(&root.path);
    root.children.iter_mut().for_each(|child| mark_consoles(child, paths));
}

/// Fills in the state to show of `root` and all children below it.
pub(crate) fn fill(root: &mut NodeSnapshot, causes: &[Cause]) {
    let mut held = BTreeMap::new();
    for cause in causes.iter().filter(|cause| !cause.routine) {
        let state = if ["paused", STOPPING].contains(&&*cause.kind) { &cause.kind } else { BLOCKED };
        held.insert(cause.path.as_str(), state);
        cause.affects.iter().for_each(|path| _ = held.entry(path).or_insert(BLOCKED));
    }
    root.children.iter_mut().for_each(|child| visit(child, &held));
    root.shown = own(root, &held).to_owned();
}

fn visit(node: &mut NodeSnapshot, held: &BTreeMap<&str, &str>) {
    node.children.iter_mut().for_each(|child| visit(child, held));
    let shown = own(node, held);
    let below =
        node.children.iter().filter(|child| !child.has_exited()).map(|child| match child.shown.as_str() {
            // The others run.
            "stopped" => BLOCKED,
            state => state,
        });
    let worst = below.chain([shown]).min_by_key(|state| ORDER.iter().position(|known| known == state));
    // The children of a supervisor that does not run say less than its own state.
    node.shown = if node.state == State::Running { worst.unwrap_or(shown) } else { shown }.to_owned();
}

/// State of the child itself.
fn own<'a>(node: &'a NodeSnapshot, held: &BTreeMap<&str, &'a str>) -> &'a str {
    match (node.state, held.get(node.path.as_str())) {
        _ if node.stuck => State::Stuck.name(),
        (State::Running, Some(state)) => state,
        (State::Running, None) if node.is_cut_off() => BLOCKED,
        (state, _) => state.name(),
    }
}

#[cfg(test)]
mod tests {
    use orchestrator_supervise::Restart;

    use super::*;
    use crate::{history::tests::tree, why::at};

    /// States shown of `o`, its child `o/c0`, and the children of that one, whose states and causes are
    /// given.
    fn shown(children: &[(State, Option<(&str, bool)>)]) -> String {
        let mut root = tree(1, 0, 0).root;
        let branch = &mut root.children[0];
        branch.children = tree(children.len() as u64, 0, 0).root.children;
        (root.state, branch.state) = (State::Running, State::Running);
        let mut causes = Vec::new();
        for (child, (state, cause)) in root.children[0].children.iter_mut().zip(children) {
            child.path.insert_str(1, "/c0");
            child.state = *state;
            causes.extend(
                cause.map(|(kind, routine)| Cause {
                    routine,
                    ..at(child, kind, String::new(), String::new())
                }),
            );
        }
        fill(&mut root, &causes);
        let mut states = Vec::new();
        root.walk(&mut |node| states.push(node.shown.as_str()));
        states.join(" ")
    }

    #[test]
    fn a_branch_has_the_worst_state_of_its_children_and_routine_causes_are_none() {
        assert_eq!(shown(&[(State::Running, None)]), "running running running");
        assert_eq!(shown(&[(State::Running, Some(("no_mapping", true)))]), "running running running");
        assert_eq!(shown(&[(State::Running, Some(("paused", false)))]), "running paused paused");
        assert_eq!(shown(&[(State::Paused, Some(("paused", false)))]), "running paused paused");
        assert_eq!(
            shown(&[(State::Running, Some(("paused", false))), (State::Running, Some(("no_worker", false)))]),
            "running blocked paused blocked"
        );
        assert_eq!(
            shown(&[(State::BackingOff, Some(("starting", true))), (State::Paused, None)]),
            "running backing_off backing_off paused"
        );
        assert_eq!(
            shown(&[(State::Stopped, None), (State::Running, None)]),
            "running blocked stopped running"
        );
        assert_eq!(shown(&[(State::GivenUp, Some(("given_up", false)))]), "running given_up given_up");
    }

    #[test]
    fn children_that_wait_for_another_one_are_blocked_and_transient_ones_may_end() {
        let mut root = tree(2, 0, 0).root;
        root.children.iter_mut().for_each(|child| child.state = State::Running);
        let affects = vec!["o/c1".to_owned()];
        let cause = Cause { affects, ..at(&root.children[0], "link_down", String::new(), String::new()) };
        fill(&mut root, &[cause]);
        assert_eq!(root.children.iter().map(|child| child.shown()).collect::<Vec<_>>(), [BLOCKED, BLOCKED]);

        let mut ended = tree(1, 0, 0).root;
        let branch = &mut ended.children[0];
        branch.children = tree(1, 0, 0).root.children;
        let transient = Restart::Transient.name().to_owned();
        (branch.children[0].state, branch.children[0].restart) = (State::Stopped, transient);
        branch.state = State::Running;
        fill(&mut ended, &[]);
        assert_eq!(ended.children[0].shown(), "running");
    }
}
