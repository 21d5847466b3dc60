//! Builds a tree from its specification and holds its root.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tracing::Instrument;

use crate::{
    ChildSpec, Exit, Factory, Limits, OnRestart, Placement, Restart, Shutdown, SpecError, Start, Strategy,
    SupervisorSpec, Tree, Vitals,
    arbiter::Place,
    body::{
        Body,
        entry::Entry,
        supervisor::{Parts, SupervisorBody},
    },
    node::Node,
    order::Order,
    runner::{Control, News, Report, Runner},
};

/// A running tree. Dropping it ends every child at once; call [`Root::stop`] to drain.
#[derive(Debug)]
pub struct Root {
    tree: Tree,
    control: mpsc::UnboundedSender<Control>,
    reports: mpsc::UnboundedReceiver<Report>,
    exit: Option<Exit>,
}

impl Root {
    /// Builds the tree called `name` on the current actix system and starts it; returns once every child is up.
    /// Supervisors run on the calling arbiter, children on threads of their own.
    ///
    /// # Errors
    /// The specification cannot be run. (A child that does not start shows as the root's exit.)
    pub async fn start(name: &str, spec: SupervisorSpec) -> Result<Self, SpecError> {
        spec.validate(name)?;
        let tree = Tree::new(name);
        let supervision = tree.arbiters().current("supervision");
        let workers = tree.arbiters().spawn("workers");
        let (report, reports) = mpsc::unbounded_channel();
        let mut builder = Builder { tree: tree.clone(), supervision, nodes: BTreeMap::new() };
        let root = ChildSpec::supervisor(name, spec);
        let above = Above { path: name.to_owned(), place: workers, report, index: 0, orders: None };
        let entry = builder.build(root, above);
        tree.populate(builder.nodes);
        entry.tell(Control::Start { incarnation: 1 });
        let mut root = Self { tree, control: entry.control, reports, exit: None };
        // The first report: up, or an exit that `wait` gives again.
        if let Some(Report { news: News::Exited(exit), .. }) = root.reports.recv().await {
            root.exit = Some(exit);
        }
        Ok(root)
    }

    /// The handle for snapshots, events and commands.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Waits until the tree ends. Once it has, gives the same exit at every call.
    pub async fn wait(&mut self) -> Exit {
        loop {
            if let Some(exit) = &self.exit {
                return exit.clone();
            }
            match self.reports.recv().await {
                Some(Report { news: News::Exited(exit), .. }) => self.exit = Some(exit),
                Some(_up) => {}
                None => return Exit::Killed,
            }
        }
    }

    /// Asks everything to drain and end, sources first, and waits for it.
    pub async fn stop(&mut self) -> Exit {
        self.request_stop();
        self.wait().await
    }

    /// Asks everything to drain and end; [`Root::wait`] sees the end.
    pub fn request_stop(&self) {
        // Its runner lives as long as `self.control`.
        let _ = self.control.send(Control::Stop);
    }
}

/// What a child needs to know of what is above it.
struct Above {
    path: String,
    place: Place,
    report: mpsc::UnboundedSender<Report>,
    index: usize,
    orders: Option<mpsc::UnboundedSender<Order>>,
}

struct Builder {
    tree: Tree,
    supervision: Place,
    nodes: BTreeMap<String, Node>,
}

impl Builder {
    fn build(&mut self, spec: ChildSpec, above: Above) -> Entry {
        let vitals = Vitals::new(&above.path, self.tree.event_log().clone());
        let place = match spec.placement {
            Placement::Dedicated => self.tree.arbiters().spawn(&above.path),
            Placement::Inherit | Placement::Spread(_) => above.place.clone(),
        };
        let (supervisor, kind) = match &spec.start {
            Start::Worker(factory) => (None, factory.kind),
            Start::Pool { count, .. } => (Some((Strategy::OneForOne, Limits::pool(*count))), "pool"),
            Start::Supervisor(spec) => (Some((spec.strategy, spec.limits)), "supervisor"),
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
            parent: above.orders.clone().map(|orders| (orders, above.index)),
            children: Vec::new(),
        };
        let factory = match spec.start {
            Start::Worker(factory) => factory,
            Start::Supervisor(inner) => {
                let (strategy, limits) = (inner.strategy, inner.limits);
                let family = Family { vitals: vitals.clone(), strategy, limits, at_once: false };
                let children = inner.children.into_iter().map(|child| (child, place.clone())).collect();
                self.supervisor(&above.path, family, children, &mut node)
            }
            Start::Pool { count, start, label } => {
                let family = Family {
                    vitals: vitals.clone(),
                    strategy: Strategy::OneForOne,
                    limits: Limits::pool(count),
                    at_once: true,
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
            shutdown,
            on_restart: traits.on_restart,
            tree: self.tree.clone(),
            report: above.report,
        };
        let (control, orders) = mpsc::unbounded_channel();
        // The level is the span's alone: it is there for every event that is logged at all.
        let span = tracing::error_span!(parent: None, "child", path = runner.vitals.path());
        runs_on.spawn(move || runner.run(factory.make, orders).instrument(span));
        self.nodes.insert(above.path, node);
        Entry::new(vitals, control, traits.restart, shutdown)
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
            node.children.push(path.clone());
            let above =
                Above { path, place, report: report.clone(), index, orders: Some(order_sender.clone()) };
            entries.push(self.build(child, above));
        }
        let Family { vitals, strategy, limits, at_once } = family;
        let parts = Parts { vitals, strategy, limits, at_once, children: entries, reports, orders };
        let make = move |_| Box::new(SupervisorBody::new(parts)) as Box<dyn Body>;
        Factory { make: Box::new(make), kind: "supervisor" }
    }
}

/// How children are treated that a pool makes alike.
#[derive(Clone, Copy)]
struct Traits {
    restart: Restart,
    shutdown: Shutdown,
    on_restart: OnRestart,
}

struct Family {
    vitals: std::sync::Arc<Vitals>,
    strategy: Strategy,
    limits: Limits,
    at_once: bool,
}
