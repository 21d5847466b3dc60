//! Builds the children of a specification: a runner and a node in the registry for each.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::{
    ChildSpec, Factory, Limits, OnRestart, Placement, Restart, Shutdown, Start, Strategy, Tree, Vitals,
    arbiter::Place,
    body::{
        Body,
        entry::Entry,
        supervisor::{Dynamic, Parts, SupervisorBody},
    },
    command::Order,
    node::Node,
    runner::{Report, Runner},
    spec::ChildrenSlot,
    tree::Nodes,
};

/// Context that a child is built with: its parent's path and channels.
pub(crate) struct Above {
    pub(crate) path: String,
    pub(crate) place: Place,
    pub(crate) report: mpsc::UnboundedSender<Report>,
    pub(crate) index: usize,
    pub(crate) orders: Option<mpsc::UnboundedSender<Order>>,
}

pub(crate) struct Builder {
    tree: Tree,
    supervision: Place,
    pub(crate) nodes: Nodes,
}

impl Builder {
    /// Supervisors will run at `supervision`.
    pub(crate) fn new(tree: Tree, supervision: Place) -> Self {
        Self { tree, supervision, nodes: Nodes::new() }
    }

    pub(crate) fn build(&mut self, spec: ChildSpec, above: Above) -> Entry {
        let vitals = Vitals::new(&above.path, self.tree.event_log().clone());
        let place = match spec.placement {
            Placement::Dedicated => self.tree.arbiters().spawn(&above.path),
            Placement::Inherit | Placement::Spread(_) => above.place.clone(),
        };
        let (supervisor, kind) = match &spec.start {
            Start::Worker(factory) => (None, factory.kind),
            Start::Pool { count, .. } => (Some((Strategy::OneForOne, Limits::pool(*count))), "pool"),
            Start::Supervisor(spec) => (Some((spec.strategy, spec.limits)), "supervisor"),
            Start::Dynamic { spec, .. } => (Some((spec.strategy, spec.limits)), "dynamic"),
        };
        let runs_on = if supervisor.is_some() { self.supervision.clone() } else { place.clone() };
        vitals.set_pulse(runs_on.pulse.clone());
        let traits = Traits { restart: spec.restart, shutdown: spec.shutdown, on_restart: spec.on_restart };
        let mut node = Node {
            vitals: vitals.clone(),
            label: spec.label,
            kind,
            restart: spec.restart.name(),
            supervisor: supervisor.map(|(strategy, limits)| (strategy.name(), limits)),
            pausable: spec.pausable,
            console: spec.console,
            durable: spec.durable,
            parent: above.orders.clone().map(|orders| (orders, above.index)),
            children: Mutex::default(),
        };
        let factory = match spec.start {
            Start::Worker(factory) => factory,
            Start::Supervisor(inner) => {
                let (strategy, limits) = (inner.strategy, inner.limits);
                let family =
                    Family { vitals: vitals.clone(), strategy, limits, at_once: false, dynamic: None };
                let children = inner.children.into_iter().map(|child| (child, place.clone())).collect();
                self.supervisor(&above.path, family, children, &mut node)
            }
            Start::Dynamic { spec, slot } => {
                let (strategy, limits) = (spec.strategy, spec.limits);
                let family = Family {
                    vitals: vitals.clone(),
                    strategy,
                    limits,
                    at_once: true,
                    dynamic: Some((slot, place.clone())),
                };
                let children = spec.children.into_iter().map(|child| (child, place.clone())).collect();
                self.supervisor(&above.path, family, children, &mut node)
            }
            Start::Pool { count, start, label } => {
                let family = Family {
                    vitals: vitals.clone(),
                    strategy: Strategy::OneForOne,
                    limits: Limits::pool(count),
                    at_once: true,
                    dynamic: None,
                };
                let places = self.spread(&above.path, spec.placement, &place);
                let member = |i: usize| {
                    let mut member = ChildSpec::worker(i.to_string(), start(i))
                        .restart(traits.restart)
                        .shutdown(traits.shutdown)
                        .on_restart(traits.on_restart);
                    member.pausable = spec.pausable;
                    member.label = label.as_ref().map(|label| label(i));
                    (member, places[i % places.len()].clone())
                };
                self.supervisor(&above.path, family, (0..count).map(member).collect(), &mut node)
            }
        };
        let shutdown = if supervisor.is_some() { Shutdown::Infinity } else { traits.shutdown };
        let runner = Runner {
            index: above.index,
            vitals: vitals.clone(),
            on_restart: traits.on_restart,
            tree: self.tree.clone(),
            report: above.report,
        };
        let (control, orders) = mpsc::unbounded_channel();
        // The level is the span's alone: it is there for every event that is logged at all.
        let span = tracing::error_span!(parent: None, "child", path = runner.vitals.path());
        runs_on.spawn(move || runner.run(factory.make, orders).instrument(span));
        self.nodes.insert(above.path, Arc::new(node));
        Entry::new(above.index, vitals, control, traits.restart, shutdown)
    }

    fn spread(&self, path: &str, placement: Placement, own: &Place) -> Vec<Place> {
        match placement {
            Placement::Spread(n) => {
                (0..n.max(1)).map(|i| self.tree.arbiters().spawn(&format!("{path}#{i}"))).collect()
            }
            Placement::Inherit | Placement::Dedicated => vec![own.clone()],
        }
    }

    /// Builds the children and gives the factory of the supervisor above them.
    fn supervisor(
        &mut self,
        path: &str,
        family: Family,
        children: Vec<(ChildSpec, Place)>,
        node: &mut Node,
    ) -> Factory {
        let (report, reports) = mpsc::unbounded_channel();
        let (order_sender, orders) = mpsc::unbounded_channel();
        let mut entries = Vec::with_capacity(children.len());
        for (index, (child, place)) in children.into_iter().enumerate() {
            let path = format!("{path}/{}", child.id);
            node.children.lock().push(path.clone());
            let above =
                Above { path, place, report: report.clone(), index, orders: Some(order_sender.clone()) };
            entries.push(self.build(child, above));
        }
        let Family { vitals, strategy, limits, at_once, dynamic } = family;
        let dynamic = dynamic.map(|(ChildrenSlot { changes, max }, place)| {
            let (tree, supervision) = (self.tree.clone(), self.supervision.clone());
            let above = path.to_owned();
            let build = move |index, child: ChildSpec| {
                let path = format!("{above}/{}", child.id);
                let (place, report, orders) = (place.clone(), report.clone(), Some(order_sender.clone()));
                let mut builder = Builder::new(tree.clone(), supervision.clone());
                let entry = builder.build(child, Above { path: path.clone(), place, report, index, orders });
                tree.adopt(&above, &path, builder.nodes);
                entry
            };
            Dynamic { changes, max, tree: self.tree.clone(), build: Box::new(build), next: entries.len() }
        });
        let parts = Parts { vitals, strategy, limits, at_once, dynamic, children: entries, reports, orders };
        let make = move |_| Box::new(SupervisorBody::new(parts)) as Box<dyn Body>;
        Factory { make: Box::new(make), kind: "supervisor" }
    }
}

/// Treatment of the children that a pool makes alike.
#[derive(Clone, Copy)]
struct Traits {
    restart: Restart,
    shutdown: Shutdown,
    on_restart: OnRestart,
}

struct Family {
    vitals: Arc<Vitals>,
    strategy: Strategy,
    limits: Limits,
    at_once: bool,
    /// Of a dynamic supervisor: from where it hears of changes, and where its children run.
    dynamic: Option<(ChildrenSlot, Place)>,
}
