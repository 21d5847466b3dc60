//! Starts a tree and holds its root.

use tokio::sync::mpsc;

use crate::{
    ChildSpec, Exit, Shutdown, SpecError, SupervisorSpec, Tree,
    build::{Above, Builder},
    runner::{Control, News, Report},
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
        let mut builder = Builder::new(tree.clone(), supervision);
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
        let _ = self.control.send(Control::Stop(Shutdown::Infinity));
    }
}
