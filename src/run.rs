//! The run of a tree, until a signal or its own end.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use orchestrator_supervise::{Exit, Root};

use crate::{
    backup,
    banner::{self, Banner},
    cli::exit_code::ExitCode,
    completion,
    config::{Config, Sources, TelemetryConfig},
    given_up::GivenUp,
    limits,
    progress::ProgressLine,
    reload::Reload,
    service_manager::ServiceManager,
    signals::{Signal, Signals},
    startup::Startup,
    stopping::Stopping,
    telemetry::{self, RateLimit},
    topology::{self, ROOT, Topology},
};

/// Hidden command of this binary that an instance calls to resolve the stacks of crash reports.
pub(crate) const SYMBOLS: &str = "symbols";

/// Runs the tree of `config` until SIGTERM, SIGINT, the end of finite work, or the exit of the root
/// supervisor. SIGHUP reads `sources` again; a drop-in has none, and prints no banner, as its original.
///
/// # Errors
/// The tree cannot start, for example because another process has locked a database.
pub(crate) fn run(config: &Config, sources: Option<Sources>) -> Result<ExitCode> {
    let TelemetryConfig { format, filter } = &config.program.telemetry;
    let (filter, log_limit) = telemetry::start(*format, filter)?;
    sources.iter().for_each(|sources| banner::print_first_line(config, sources));
    if let Some(undone) = backup::recover(config, sources.as_ref())? {
        tracing::warn!("{undone}");
    }
    let Topology { root, admin, sections } = topology::build(config)?;
    limits::check(&root)?;
    topology::preflight(config)?;
    actix_rt::System::new().block_on(async {
        let mut signals = Signals::new().context("cannot install the signal handlers")?;
        let mut manager = ServiceManager::from_environment();
        let mut root = Root::start(ROOT, root).await?;
        let banner = Banner::new(sources.is_some().then_some(config));
        let mut reload = Reload::new(sources, config.clone(), filter, admin, sections);
        // A tree that failed to boot has exited by now. The operator has to act, so it counts as a
        // configuration error.
        if let Ok(exit) = tokio::time::timeout(Duration::ZERO, root.wait()).await {
            bail!("{exit}");
        }
        // The kernel keeps this link to the binary even if the file was replaced.
        root.tree().crash_log().resolve_by("/proc/self/exe".into(), &[SYMBOLS]);
        tracing::info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "started");
        config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let source = topology::progress(config);
        let ends = source.as_ref().filter(|source| source.ends);
        let last_child = ends.map(|source| format!("{ROOT}/{}", source.child));
        let work = FiniteWork { last_child, progress: ProgressLine::new(source) };
        let code =
            supervise(&mut root, banner, work, &mut signals, &mut manager, &mut reload, &log_limit).await;
        log_limit.report(true);
        Ok(code)
    })
}

/// Work that comes to an end.
struct FiniteWork {
    /// Path of the child whose normal exit ends the run.
    last_child: Option<String>,
    progress: ProgressLine,
}

async fn supervise(
    root: &mut Root,
    mut banner: Banner<'_>,
    mut work: FiniteWork,
    signals: &mut Signals,
    manager: &mut ServiceManager,
    reload: &mut Reload,
    log_limit: &RateLimit,
) -> ExitCode {
    let tree = root.tree().clone();
    let mut stopping = Stopping::default();
    let mut startup = Startup::new();
    let mut given_up = GivenUp::new(&tree);
    let mut reports = tokio::time::interval(RateLimit::REPORT_EVERY);
    loop {
        tokio::select! {
            exit = root.wait() => return exit_code(&exit),
            () = startup.tick(), if !stopping.has_begun() => startup.check(&tree, manager),
            () = banner.tick(), if !stopping.has_begun() => banner.check(&tree, startup.is_over()),
            status = given_up.changed(), if !stopping.has_begun() => manager.set_status(status),
            () = manager.tick() => manager.feed_watchdog(&tree),
            _ = reports.tick() => log_limit.report(false),
            () = work.progress.tick(), if !stopping.has_begun() => work.progress.show(&tree),
            () = completion::wait_for_normal_exit(&tree, work.last_child.as_deref()), if !stopping.has_begun() => {
                tracing::info!("all work is done: draining");
                stopping.begin(root, manager);
            }
            () = stopping.tick() => stopping.report(&tree, manager),
            signal = signals.next() => match signal {
                Signal::Repeated(signal) => tracing::info!(signal, "ignored: the same signal arrived within 0.5 s"),
                Signal::Ignored(signal) => tracing::info!(signal, "ignored: this signal has no meaning for orchestrator"),
                Signal::Stop(signal) if stopping.has_begun() => {
                    tracing::warn!(signal, "second signal: exiting without draining");
                    return ExitCode::Killed;
                }
                Signal::Stop(signal) => {
                    tracing::info!(signal, "draining");
                    stopping.begin(root, manager);
                }
                Signal::Reload if stopping.has_begun() => tracing::info!("SIGHUP ignored while draining"),
                Signal::Reload => {
                    manager.reloading();
                    reload.run();
                    if startup.is_over() {
                        manager.ready();
                    }
                }
            }
        }
    }
}

fn exit_code(exit: &Exit) -> ExitCode {
    match exit {
        Exit::Normal | Exit::Shutdown => {
            tracing::info!("stopped");
            ExitCode::Ok
        }
        failure => {
            tracing::error!(exit = %failure, "the root supervisor gave up");
            ExitCode::GaveUp
        }
    }
}
