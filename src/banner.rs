//! The banner of a start on standard output: version, endpoints, and first commands to try.
//!
//! It follows the log lines of the start: it is printed once the process is ready, or after [`WAIT_MAX`] if a
//! peer is down.

use std::{path::Path, time::Duration};

use orchestrator_subsystem::output::escape_lines;
use orchestrator_supervise::{StandardStream, Tree};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::{
    config::{Config, Sources},
    progress,
    topology::ADMIN,
};

/// Time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Longest wait for readiness.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The banner of a start, until it is printed.
#[derive(Debug)]
pub(crate) struct Banner<'a> {
    /// `None` once the banner was printed.
    waiting: Option<(&'a Config, Interval)>,
    started: Instant,
}

impl<'a> Banner<'a> {
    /// Creates the banner for `config`; without it, none is printed. Needs a running arbiter.
    pub(crate) fn new(config: Option<&'a Config>) -> Self {
        let waiting = config.map(|config| {
            let mut checks = interval(CHECK_INTERVAL);
            checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            (config, checks)
        });
        Self { waiting, started: Instant::now() }
    }

    /// Waits until [`Self::check`] is due; for ever once the banner was printed.
    pub(crate) async fn tick(&mut self) {
        match &mut self.waiting {
            Some((_, checks)) => drop(checks.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Prints the banner if the process is ready and the endpoint has opened its sockets, or if that takes
    /// too long.
    pub(crate) fn check(&mut self, tree: &Tree, is_ready: bool) {
        let Some((config, _)) = &self.waiting else { return };
        let admin = orchestrator_admin::greeting(&config.program.admin, tree, ADMIN);
        if (is_ready && admin.is_some()) || self.started.elapsed() > WAIT_MAX {
            print(&text(config, &admin.unwrap_or_default()));
            self.waiting = None;
        }
    }
}

/// Prints what is started without arguments or with a file that they do not name, before anything is started.
pub(crate) fn print_first_line(config: &Config, sources: &Sources) {
    let queue = || {
        let directory = if Path::new("var").exists() { "in ./var" } else { "in a new directory ./var" };
        let address = match config.program.admin.listen.as_str() {
            "" => "no TCP port".to_owned(),
            listen => format!("http://{listen}"),
        };
        format!(
            "no configuration: runs the queue {directory}, admin endpoint at {address}; `orchestrator --help` lists the commands"
        )
    };
    if let Some(line) = sources.found().or_else(|| (config.is_default && sources.only.is_none()).then(queue))
    {
        StandardStream::Output.print(format!("orchestrator: {}\n", escape_lines(&line)));
    }
}

fn text(config: &Config, admin: &str) -> String {
    let mut text = format!("orchestrator {}\n{admin}", env!("CARGO_PKG_VERSION"));
    config.sections.iter().for_each(|section| text.push_str(&section.greeting()));
    escape_lines(&text)
}

fn print(text: &str) {
    progress::erase();
    StandardStream::Output.print(format!("{text}\n"));
}

#[cfg(test)]
mod tests {
    use crate::{config::Config, subsystems::SUBSYSTEMS};

    #[test]
    fn each_subsystem_has_a_line() {
        let example = |name: &str| match name {
            "ingester" => {
                serde_json::json!([{ "name": "i", "stream": [{ "name": "s", "source": "stins" }] }])
            }
            "catalog" => serde_json::json!([{ "name": "lab", "base": "https://h/ermrest/catalog/1" }]),
            _ => serde_json::json!({}),
        };
        let section = |name: &'static str| {
            let subsystem = SUBSYSTEMS.iter().find(|subsystem| subsystem.name() == name).unwrap();
            subsystem.section(example(name)).unwrap().expect("a section")
        };
        let sections = SUBSYSTEMS.iter().map(|subsystem| section(subsystem.name())).collect();
        let config = Config { sections, ..Config::default() };
        let text = super::text(&config, "  admin       off\n");
        let names = text.lines().filter_map(|line| line.get(2..14)?.split_once(' '));
        let names: Vec<_> = names.map(|(name, _)| name).filter(|name| !name.is_empty()).collect();
        let expected = std::iter::once("admin").chain(SUBSYSTEMS.iter().map(|subsystem| subsystem.name()));
        assert_eq!(names[1..], expected.collect::<Vec<_>>(), "{text}");
    }
}
