//! The terminal while `top` has it: raw mode and the alternate screen, given back at the end, at a panic and
//! at a suspension.

use std::{
    io::{self, Stdout, stdout},
    sync::{
        Once,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use ratatui::{
    Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::{Hide, Show},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};

/// True while the terminal is in raw mode.
static IS_RAW: AtomicBool = AtomicBool::new(false);

/// The terminal in raw mode. Dropping it restores the terminal.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal of the process.
    ///
    /// # Errors
    /// Standard output is no terminal, or its modes cannot be changed.
    pub(super) fn take() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let report = std::panic::take_hook();
            // The message must not disappear with the alternate screen.
            std::panic::set_hook(Box::new(move |info| {
                restore();
                report(info);
            }));
        });
        enter()?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| restore())?;
        Ok(Self { terminal })
    }

    /// Draws a frame, after the terminal was resized with its new size.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }

    /// Gives the terminal back to the shell for a while.
    pub(super) fn suspend(&self) {
        restore();
    }

    /// Takes the terminal again. The next frame is drawn completely.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        // Another program may have changed the modes since `suspend`, or without it.
        restore();
        enter()?;
        // `Terminal::clear` would ask the terminal for the position of the cursor, and the answer is read as
        // keys.
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    IS_RAW.store(true, SeqCst);
    execute!(stdout(), EnterAlternateScreen, Hide).inspect_err(|_| restore())
}

/// Restores the terminal, once for each time that it was taken.
fn restore() {
    if IS_RAW.swap(false, SeqCst) {
        // The terminal may be closed.
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, process::Command};

    use orchestrator_harness::{PtyProgram, eventually};

    use super::*;

    /// Environment variable that is set in the process that panics.
    const MARK: &str = "ORCHESTRATOR_TEST_SCREEN_PANIC";

    #[test]
    fn a_panic_restores_the_terminal_before_its_message() {
        if std::env::var_os(MARK).is_some() {
            let _screen = Screen::take().expect("a terminal");
            let _ = io::stdin().read(&mut [0]);
            panic!("on purpose");
        }
        let name = "cli::top::terminal::tests::a_panic_restores_the_terminal_before_its_message";
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        // A backtrace would move the message off the screen.
        command.args([name, "--exact", "--nocapture"]).env(MARK, "1").env("RUST_BACKTRACE", "0");
        let mut program = PtyProgram::start(&command, 80, 24);
        eventually("the alternate screen", || program.is_full_screen() && program.is_cursor_hidden());
        assert_ne!(program.modes(), program.modes_before(), "it is in raw mode");
        program.type_text("x");
        program.await_text("on purpose");
        assert_eq!(program.wait().code(), Some(101));
        assert_eq!(program.modes(), program.modes_before());
        assert!(!program.is_full_screen() && !program.is_cursor_hidden());
    }
}
