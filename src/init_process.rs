//! Process 1 of a container. The kernel gives it each process whose parent has ended, and it has to reap
//! them. An instance waits only for the programs that it has started, so it then runs as the only child of a
//! process that does the rest.

use std::{
    env,
    future::poll_fn,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
    task::Poll,
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

/// Signals that are passed on. The terminal sends its own to both processes; the instance ignores a
/// repetition.
const FORWARDED: [Signal; 8] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::POWER,
];
/// Added to the number of the signal that ended a process, as shells do.
const SIGNALLED: i32 = 128;

/// True in process 1.
pub(crate) fn is_needed() -> bool {
    getpid().is_init()
}

/// Starts this command again, forwards signals to it, and reaps all processes. Returns its exit code.
///
/// # Errors
/// It cannot be started.
pub(crate) fn run() -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        // Before the start, so that no signal is lost.
        let kinds = FORWARDED.into_iter().chain([Signal::CHILD]);
        let streams = kinds.map(|kind| Ok((kind, signal(SignalKind::from_raw(kind.as_raw()))?)));
        let mut streams = streams.collect::<Result<Vec<_>>>()?;
        let program = env::current_exe().context("cannot find the program's file")?;
        let mut arguments = env::args_os();
        let mut command = Command::new(&program);
        command.arg0(arguments.next().unwrap_or_else(|| program.clone().into())).args(arguments);
        if env::var("WATCHDOG_PID").is_ok_and(|pid| pid == "1") {
            // The child feeds the watchdog.
            command.env_remove("WATCHDOG_PID");
        }
        let child = Pid::from_child(&command.spawn().context("cannot start the program again")?);
        loop {
            let received = poll_fn(|cx| {
                let mut kinds = streams.iter_mut();
                let ready = kinds.find_map(|(kind, stream)| stream.poll_recv(cx).is_ready().then_some(*kind));
                ready.map_or(Poll::Pending, Poll::Ready)
            });
            match received.await {
                Signal::CHILD => {
                    while let Ok(Some((ended, status))) = wait(WaitOptions::NOHANG) {
                        if ended == child {
                            return Ok(exit_code(status));
                        }
                    }
                }
                // It may have ended; then its end is the next signal.
                other => drop(kill_process(child, other)),
            }
        }
    })
}

fn exit_code(status: WaitStatus) -> ExitCode {
    let code = status.exit_status().or_else(|| Some(SIGNALLED + status.terminating_signal()?));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
