//! Start and root of a tree.

use std::{sync::Arc, time::Duration};

use orchestrator_observe::Exit;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    ChildSpec, Shutdown, SpecError, SupervisorSpec, Tree,
    activity::install_hook,
    build::{Builder, ChildContext},
    runner::{Control, Report, ReportKind},
    sends::refuse_cycles,
};

/// A running tree. Dropping it ends every child at once, without draining; see [`Root::stop`].
#[derive(Debug)]
pub struct Root {
    tree: Tree,
    control: mpsc::UnboundedSender<Control>,
    reports: mpsc::UnboundedReceiver<Report>,
    exit: Option<Exit>,
}

impl Root {
    /// Builds the tree `name` on the current actix system and starts it; returns once every child is up.
    ///
    /// Supervisors run on the calling arbiter, their children on other threads.
    ///
    /// # Errors
    /// [`SpecError`] if the specification is invalid. A child that fails to start is no error here:
    /// [`Root::wait`] returns it as exit.
    pub async fn start(name: &str, spec: SupervisorSpec) -> Result<Self, SpecError> {
        spec.validate(name)?;
        install_hook();
        let tree = Tree::new(name, spec.link_retry_max, spec.chaos);
        let supervision = tree.arbiters().current("supervision");
        let workers = tree.arbiters().spawn("workers");
        let (report, reports) = mpsc::unbounded_channel();
        let mut builder = Builder::new(tree.clone(), supervision);
        let root = ChildSpec::supervisor(name, spec);
        let cx = ChildContext {
            path: name.to_owned(),
            arbiter: workers,
            report,
            index: 0,
            commands: None,
            sends: Arc::default(),
        };
        let entry = builder.build(root, cx);
        refuse_cycles(builder.nodes.iter().map(|(path, node)| (path.as_str(), &*node.sends)))?;
        tree.populate(builder.nodes);
        entry.tell(Control::Start { incarnation: 1, planned: true });
        let mut root = Self { tree, control: entry.control, reports, exit: None };
        // The first report: the root is up, or an exit, which `wait` returns.
        if let Some(Report { kind: ReportKind::Exited(exit), .. }) = root.reports.recv().await {
            root.exit = Some(exit);
        }
        Ok(root)
    }

    /// Handle on snapshots, events and commands.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Waits until the tree ends. Returns the same exit at every later call.
    pub async fn wait(&mut self) -> Exit {
        loop {
            if let Some(exit) = &self.exit {
                return exit.clone();
            }
            match self.reports.recv().await {
                Some(Report { kind: ReportKind::Exited(exit), .. }) => self.exit = Some(exit),
                Some(_up) => {}
                None => return Exit::Killed,
            }
        }
    }

    /// Asks all children to drain and end, the last one first, and waits for their end.
    pub async fn stop(&mut self) -> Exit {
        self.send_stop(None);
        self.wait().await
    }

    /// Asks all children to drain and end, without waiting; see [`Root::wait`]. After `limit`, all that is
    /// left is asked to stop at once, and is dropped and reported half a second later.
    pub fn request_stop(&self, limit: Duration) {
        self.send_stop(Some(Instant::now() + limit));
    }

    fn send_stop(&self, deadline: Option<Instant>) {
        // The runner lives as long as `self.control`.
        let _ = self.control.send(Control::Stop { shutdown: Shutdown::Infinity, deadline });
    }
}
