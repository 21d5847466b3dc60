//! Builds the children of a specification: for each a runner and a node in the registry.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::{
    Backoff, ChildSpec, Factory, Limits, Placement, Shutdown, Start, Strategy, Tree,
    activity::Scope,
    arbiter::MonitoredArbiter,
    body::{
        Body,
        entry::Entry,
        supervisor::{Concurrency, Dynamic, Parts, SupervisorBody},
    },
    command::CommandRequest,
    node::Node,
    runner::{Report, Runner},
    sends::{AllowedSends, DeclaredSend},
    spec::ChildrenSlot,
    tree::Nodes,
};

/// Position of a child in the tree, and the channels to its supervisor.
pub(crate) struct ChildContext {
    pub(crate) path: String,
    pub(crate) arbiter: MonitoredArbiter,
    pub(crate) report: mpsc::UnboundedSender<Report>,
    pub(crate) index: usize,
    pub(crate) commands: Option<mpsc::UnboundedSender<CommandRequest>>,
    /// Declared by the supervisors above.
    pub(crate) sends: Arc<[DeclaredSend]>,
}

pub(crate) struct Builder {
    tree: Tree,
    supervision: MonitoredArbiter,
    pub(crate) nodes: Nodes,
}

impl Builder {
    /// Creates a builder that places supervisors on the arbiter `supervision`.
    pub(crate) fn new(tree: Tree, supervision: MonitoredArbiter) -> Self {
        Self { tree, supervision, nodes: Nodes::new() }
    }

    pub(crate) fn build(&mut self, spec: ChildSpec, cx: ChildContext) -> Entry {
        let state = self.tree.new_child(&cx.path);
        spec.reference.iter().for_each(|reference| reference.set(state.vitals()));
        let sends: Arc<[_]> = cx.sends.iter().chain(&spec.sends).cloned().collect();
        state.activity().allow(AllowedSends { from: cx.path.as_str().into(), sends: sends.clone() });
        let arbiter = match spec.placement {
            Placement::Dedicated => self.tree.arbiters().spawn(&cx.path),
            Placement::Inherit | Placement::Spread(_) => cx.arbiter.clone(),
        };
        let (supervisor, kind) = match &spec.start {
            Start::Worker(factory) => (None, factory.kind),
            Start::Pool { count, .. } => (Some((Strategy::OneForOne, Limits::pool(*count))), "pool"),
            Start::Supervisor(spec) => (Some((spec.strategy, spec.limits)), "supervisor"),
            Start::Dynamic { spec, .. } => (Some((spec.strategy, spec.limits)), "dynamic"),
        };
        let runs_on = if supervisor.is_some() { self.supervision.clone() } else { arbiter.clone() };
        state.set_heartbeat(runs_on.heartbeat.clone());
        let mut node = Node {
            child: state.clone(),
            label: spec.label,
            kind,
            restart: spec.restart,
            supervisor: supervisor.map(|(strategy, limits)| (strategy.name(), limits)),
            pausable: spec.pausable,
            attached: spec.attached,
            durable: spec.durable,
            sends: spec.sends,
            parent: cx.commands.clone().map(|commands| (commands, cx.index)),
            children: Mutex::default(),
        };
        let inherit = |children: Vec<ChildSpec>| {
            children.into_iter().map(|child| (child, arbiter.clone())).collect::<Vec<_>>()
        };
        let factory = match spec.start {
            Start::Worker(factory) => factory,
            Start::Supervisor(inner) => {
                let children = inherit(inner.children);
                let policy = (inner.strategy, inner.limits, inner.retry);
                let concurrency = Concurrency { all: false, branches: inner.independent_branches };
                self.supervisor(&mut node, policy, concurrency, (children, sends), None)
            }
            Start::Dynamic { spec, slot } => {
                let (policy, children) = ((spec.strategy, spec.limits, None), inherit(spec.children));
                let children = (children, sends);
                self.supervisor(&mut node, policy, Concurrency::ALL, children, Some((slot, arbiter.clone())))
            }
            Start::Pool { count, start, label } => {
                let arbiters = self.spread(&cx.path, spec.placement, &arbiter);
                let member = |i: usize| {
                    let mut member = ChildSpec::worker(i.to_string(), start(i))
                        .restart(spec.restart)
                        .shutdown(spec.shutdown)
                        .on_restart(spec.on_restart);
                    member.pausable = spec.pausable;
                    member.label = label.as_ref().map(|label| label(i));
                    (member, arbiters[i % arbiters.len()].clone())
                };
                let (policy, members) =
                    ((Strategy::OneForOne, Limits::pool(count), None), (0..count).map(member).collect());
                self.supervisor(&mut node, policy, Concurrency::ALL, (members, sends), None)
            }
        };
        for (name, stats) in factory.mailboxes {
            node.child.add_mailbox(name, stats);
        }
        let shutdown = if supervisor.is_some() { Shutdown::Infinity } else { spec.shutdown };
        let runner = Runner {
            index: cx.index,
            scope: Scope::new(state.activity()),
            child: state.clone(),
            on_restart: spec.on_restart,
            tree: self.tree.clone(),
            report: cx.report,
        };
        let (control, commands) = mpsc::unbounded_channel();
        // At the level of errors, so that every logged event has the span.
        let span = tracing::error_span!(parent: None, "child", path = runner.child.path());
        runs_on.spawn(move || runner.run(factory.make, commands).instrument(span));
        self.nodes.insert(cx.path, Arc::new(node));
        let significant = spec.significant;
        Entry { significant, ..Entry::new(cx.index, state, control, spec.restart, shutdown) }
    }

    fn spread(&self, path: &str, placement: Placement, own: &MonitoredArbiter) -> Vec<MonitoredArbiter> {
        match placement {
            Placement::Spread(n) => {
                (0..n.max(1)).map(|i| self.tree.arbiters().spawn(&format!("{path}#{i}"))).collect()
            }
            Placement::Inherit | Placement::Dedicated => vec![own.clone()],
        }
    }

    /// Builds the children and returns the factory of the supervisor above them, whose node gets their paths.
    /// The children may send what the supervisors above declare. A dynamic supervisor has the receiver of
    /// changes, and the arbiter of its children.
    fn supervisor(
        &mut self,
        node: &mut Node,
        (strategy, limits, retry): (Strategy, Limits, Option<Backoff>),
        concurrency: Concurrency,
        (children, sends): (Vec<(ChildSpec, MonitoredArbiter)>, Arc<[DeclaredSend]>),
        dynamic: Option<(ChildrenSlot, MonitoredArbiter)>,
    ) -> Factory {
        let own = node.child.clone();
        let (report, reports) = mpsc::unbounded_channel();
        let (command_sender, commands) = mpsc::unbounded_channel();
        let mut entries = Vec::with_capacity(children.len());
        for (index, (child, arbiter)) in children.into_iter().enumerate() {
            let path = format!("{}/{}", own.path(), child.id);
            node.children.lock().push(path.clone());
            let cx = ChildContext {
                path,
                arbiter,
                report: report.clone(),
                index,
                commands: Some(command_sender.clone()),
                sends: sends.clone(),
            };
            entries.push(self.build(child, cx));
        }
        let dynamic = dynamic.map(|(ChildrenSlot { changes, max }, arbiter)| {
            let (tree, supervision) = (self.tree.clone(), self.supervision.clone());
            let parent = own.path().to_owned();
            let build = move |index, child: ChildSpec| {
                let path = format!("{parent}/{}", child.id);
                let cx = ChildContext {
                    path: path.clone(),
                    arbiter: arbiter.clone(),
                    report: report.clone(),
                    index,
                    commands: Some(command_sender.clone()),
                    sends: sends.clone(),
                };
                let mut builder = Builder::new(tree.clone(), supervision.clone());
                let entry = builder.build(child, cx);
                tree.insert_subtree(&parent, &path, builder.nodes);
                entry
            };
            Dynamic { changes, max, tree: self.tree.clone(), build: Box::new(build), next: entries.len() }
        });
        let parts = Parts {
            child: own,
            strategy,
            limits,
            retry,
            concurrency,
            dynamic,
            children: entries,
            reports,
            commands,
        };
        let make = move |_| Box::new(SupervisorBody::new(parts)) as Box<dyn Body>;
        Factory { make: Box::new(make), kind: "supervisor", mailboxes: Vec::new() }
    }
}
