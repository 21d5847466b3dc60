//! A program in a terminal of its own: a pseudo-terminal with an emulator that keeps the screen.

use std::{
    fs::File,
    io::{Read, Write},
    num::NonZeroU16,
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command, ExitStatus},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use rustix::{
    fs::{Mode, OFlags, open},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};

use crate::wait_for;

/// Program in a pseudo-terminal, whose controlling terminal it is. The program is killed when this is
/// dropped.
pub struct PtyProgram {
    child: Child,
    controller: File,
    /// Other end of the terminal, kept open so that its modes can be read after the end of the program.
    terminal: OwnedFd,
    screen: Arc<Mutex<vt100::Parser<Title>>>,
    modes_before: Termios,
}

impl PtyProgram {
    /// Starts a command in a terminal of `columns` by `lines`.
    ///
    /// # Panics
    /// If there is no pseudo-terminal, or the command cannot be started.
    pub fn start(command: &Command, columns: u16, lines: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&controller).expect("it is ours");
        unlockpt(&controller).expect("it is ours");
        let name = ptsname(&controller, Vec::new()).expect("it has a name");
        let terminal = open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("a terminal");
        resize(&controller, columns, lines);
        let modes_before = tcgetattr(&terminal).expect("a terminal");
        // `setsid --ctty` makes standard input the controlling terminal, as a login does.
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => session.env(key, value),
                None => session.env_remove(key),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            session.current_dir(directory);
        }
        let end = || terminal.as_fd().try_clone_to_owned().expect("a second handle");
        session.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color");
        let child = session.spawn().expect("start the program");
        let screen = Arc::new(Mutex::new(emulator(columns, lines)));
        let controller = File::from(controller);
        read(controller.try_clone().expect("a second handle"), Arc::clone(&screen));
        Self { child, controller, terminal, screen, modes_before }
    }

    /// Types text. `\r` is Enter, `\x1b` Escape.
    ///
    /// # Panics
    /// If the terminal is closed.
    pub fn type_text(&mut self, text: &str) {
        self.controller.write_all(text.as_bytes()).expect("an open terminal");
    }

    /// Changes the size of the terminal, and informs the program.
    pub fn resize(&self, columns: u16, lines: u16) {
        self.emulator().set_size(size(lines), size(columns));
        resize(&self.controller, columns, lines);
    }

    /// Text on the screen.
    pub fn screen(&self) -> String {
        self.emulator().screen().contents()
    }

    /// Title that the program gave to the window.
    pub fn title(&self) -> String {
        self.emulator().callbacks().0.clone()
    }

    /// Returns true while the program uses the alternate screen.
    pub fn is_full_screen(&self) -> bool {
        self.emulator().screen().alternate_screen()
    }

    /// Returns true if a character on the screen has a color.
    pub fn has_colors(&self) -> bool {
        let emulator = self.emulator();
        let (lines, columns) = emulator.screen().size();
        let cells = (0..lines.get()).flat_map(|line| (0..columns.get()).map(move |column| (line, column)));
        let mut cells = cells.filter_map(|(line, column)| emulator.screen().cell(line, column));
        cells.any(|cell| [cell.fgcolor(), cell.bgcolor()] != [vt100::Color::Default; 2])
    }

    /// Returns true if the cursor is hidden.
    pub fn is_cursor_hidden(&self) -> bool {
        self.emulator().screen().hide_cursor()
    }

    /// Waits until the screen contains `text`.
    ///
    /// # Panics
    /// If it does not in time, with the screen.
    pub fn await_text(&self, text: &str) {
        self.await_screen(text, |screen| screen.contains(text));
    }

    /// Waits for a condition of the text on the screen.
    ///
    /// # Panics
    /// If it does not hold in time, with the screen.
    pub fn await_screen(&self, what: &str, condition: impl Fn(&str) -> bool) {
        let give_up = std::time::Instant::now() + crate::DEADLINE;
        while !condition(&self.screen()) {
            assert!(std::time::Instant::now() < give_up, "no {what:?} on the screen:\n{}", self.screen());
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Modes of the terminal now, as text to compare.
    ///
    /// # Panics
    /// If the terminal is closed.
    pub fn modes(&self) -> String {
        text_of(&tcgetattr(&self.terminal).expect("a terminal"))
    }

    /// Modes of the terminal before the program was started.
    pub fn modes_before(&self) -> String {
        text_of(&self.modes_before)
    }

    /// Sends a signal to the program.
    ///
    /// # Panics
    /// If the program has ended.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process is ours");
    }

    /// Returns true while the program is stopped by a signal.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    }

    /// Waits for the end of the program.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(&mut self) -> ExitStatus {
        wait_for("the program to end", || self.child.try_wait().expect("the process is ours"))
    }

    fn emulator(&self) -> MutexGuard<'_, vt100::Parser<Title>> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PtyProgram {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Title of the window.
#[derive(Debug, Default)]
struct Title(String);

impl vt100::Callbacks for Title {
    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        self.0 = String::from_utf8_lossy(title).into_owned();
    }
}

fn emulator(columns: u16, lines: u16) -> vt100::Parser<Title> {
    vt100::Parser::new_with_callbacks(size(lines), size(columns), 0, Title::default())
}

fn size(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a screen has a size")
}

fn resize(terminal: impl AsFd, columns: u16, lines: u16) {
    let size = Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a terminal");
}

/// Passes the output of the program to the emulator until the terminal is closed.
fn read(mut controller: File, screen: Arc<Mutex<vt100::Parser<Title>>>) {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = controller.read(&mut buffer) {
            screen.lock().unwrap_or_else(PoisonError::into_inner).process(&buffer[..count]);
        }
    });
}

fn text_of(modes: &Termios) -> String {
    format!(
        "{:?} {:?} {:?} {:?} {:?}",
        modes.input_modes, modes.output_modes, modes.control_modes, modes.local_modes, modes.special_codes
    )
}
