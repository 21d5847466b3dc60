//! Runs the tree until a signal or its own end.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use orchestrator_admin::Binding;
use orchestrator_supervise::{Exit, Root};

use crate::{
    cli::exit_code::ExitCode,
    completion,
    config::{Config, Sources},
    limits,
    progress::Progress,
    reload::Reload,
    service_manager::ServiceManager,
    signals::{Signal, Signals},
    startup::Startup,
    telemetry::{self, RateLimit},
    topology::{self, ROOT, Topology},
};

/// Runs until SIGTERM, SIGINT, the end of all work where it has one, or that of the root supervisor. `sources` is where `config` can be read again.
///
/// # Errors
/// What keeps it from starting at all: configuration, or a database that is not ours to use.
pub(crate) fn run(
    config: &Config,
    sources: Option<Sources>,
    binding: Binding,
    greeting: &str,
) -> Result<ExitCode> {
    let (filter, log_limit) = telemetry::start(&config.program.telemetry)?;
    orchestrator_edge::set_retry_max(Duration::from_millis(config.program.links.retry_max_ms));
    limits::check(&topology::of(config, binding)?.root)?;
    topology::preflight(config)?;
    actix_rt::System::new().block_on(async {
        let mut signals = Signals::new().context("cannot take over the signals of operators")?;
        let mut manager = ServiceManager::from_environment();
        let Topology { root, admin, sections } = topology::of(config, binding)?;
        let mut root = Root::start(ROOT, root).await?;
        let mut reload = Reload::new(sources, config.clone(), filter, admin, sections);
        // A tree that did not boot has ended by now: what it lacks is the operator's to give, like a wrong configuration.
        if let Ok(exit) = tokio::time::timeout(Duration::ZERO, root.wait()).await {
            bail!("{exit}");
        }
        if config.program.admin.as_ref().is_some_and(|admin| admin.chaos) {
            root.tree().allow_chaos();
        }
        tracing::info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "started");
        if !greeting.is_empty() {
            greet(greeting);
        }
        let work = topology::work(config);
        let last = work.as_ref().filter(|work| work.ends).map(|work| format!("{ROOT}/{}", work.child));
        let work = Finite { last, progress: Progress::of(work) };
        let code = supervise(&mut root, work, &mut signals, &mut manager, &mut reload, &log_limit).await;
        log_limit.report(true);
        Ok(code)
    })
}

/// Work that comes to an end.
struct Finite {
    /// The child whose good end is that of all work.
    last: Option<String>,
    progress: Progress,
}

async fn supervise(
    root: &mut Root,
    mut work: Finite,
    signals: &mut Signals,
    manager: &mut ServiceManager,
    reload: &mut Reload,
    log_limit: &RateLimit,
) -> ExitCode {
    let tree = root.tree().clone();
    let mut stopping = false;
    let mut startup = Startup::begin();
    let mut reports = tokio::time::interval(RateLimit::REPORT_EVERY);
    loop {
        tokio::select! {
            exit = root.wait() => return conclude(&exit),
            () = startup.tick(), if !stopping => startup.look(&tree, manager),
            () = manager.tick() => manager.alive(&tree),
            _ = reports.tick() => log_limit.report(false),
            () = work.progress.tick(), if !stopping => work.progress.show(&tree),
            () = completion::reached(&tree, work.last.as_deref()), if !stopping => {
                tracing::info!("all is done: draining");
                stopping = true;
                manager.stopping();
                root.request_stop();
            }
            signal = signals.next() => match signal {
                Signal::Repeated(signal) => tracing::info!(signal, "the same signal again at once: counted once"),
                Signal::Ignored(signal) => tracing::info!(signal, "this signal has no meaning here: ignored"),
                Signal::Stop(signal) if stopping => {
                    tracing::warn!(signal, "second signal: ending at once");
                    return ExitCode::Killed;
                }
                Signal::Stop(signal) => {
                    tracing::info!(signal, "draining");
                    stopping = true;
                    manager.stopping();
                    root.request_stop();
                }
                Signal::Reload if stopping => tracing::info!("SIGHUP: draining, nothing is read again"),
                Signal::Reload => {
                    manager.reloading();
                    reload.carry_out();
                    if startup.is_over() {
                        manager.ready();
                    }
                }
            }
        }
    }
}

fn conclude(exit: &Exit) -> ExitCode {
    match exit {
        Exit::Normal | Exit::Shutdown => {
            tracing::info!("stopped");
            ExitCode::Ok
        }
        broken => {
            tracing::error!(exit = %broken, "the root supervisor gave up");
            ExitCode::GaveUp
        }
    }
}

/// Tells a person at a terminal where to go on.
fn greet(greeting: &str) {
    use std::io::Write;
    // A closed standard output is no reason not to run.
    let _ = writeln!(std::io::stdout().lock(), "{greeting}");
}
