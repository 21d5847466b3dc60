//! A program in a terminal of its own, a pseudo-terminal.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::AsFd,
    process::{Child, Command, ExitStatus},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags, open},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::wait_for;

/// Program in a pseudo-terminal, whose controlling terminal it is. The program is killed when this is
/// dropped.
pub struct PtyProgram {
    child: Child,
    controller: File,
    printed: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
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
        let size = Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).expect("a terminal");
        // As a login does: `setsid --ctty` makes standard input the controlling terminal, and `env` has
        // Ctrl-C end the program also if these tests run in the background of a shell, which ignores it.
        let mut session = Command::new("setsid");
        session
            .args(["--ctty", "env", "--default-signal=INT"])
            .arg(command.get_program())
            .args(command.get_args());
        session.env("TERM", "xterm-256color");
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
        let child = session.stdin(end()).stdout(end()).stderr(end()).spawn().expect("start the program");
        let printed = Arc::new(Mutex::new(Vec::new()));
        let controller = File::from(controller);
        let reader = read(controller.try_clone().expect("a second handle"), Arc::clone(&printed));
        Self { child, controller, printed, reader: Some(reader) }
    }

    /// Types text. `\r` is Enter, `\x03` Ctrl-C.
    ///
    /// # Panics
    /// If the terminal is closed.
    pub fn type_text(&mut self, text: &str) {
        self.controller.write_all(text.as_bytes()).expect("an open terminal");
    }

    /// All that was printed, with control sequences. Lines end with `\r\n`.
    pub fn printed(&self) -> String {
        let printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&printed).into_owned()
    }

    /// True if something printed has a colour.
    pub fn has_colors(&self) -> bool {
        self.printed().contains("\x1b[3")
    }

    /// Waits until `text` is printed.
    ///
    /// # Panics
    /// If it is not in time, with all that was printed.
    pub fn await_text(&self, text: &str) {
        self.await_printed(text, |printed| printed.contains(text));
    }

    /// Waits for a condition of the printed text.
    ///
    /// # Panics
    /// If it does not hold in time, with all that was printed.
    pub fn await_printed(&self, what: &str, condition: impl Fn(&str) -> bool) {
        let give_up = Instant::now() + crate::DEADLINE;
        while !condition(&self.printed()) {
            assert!(Instant::now() < give_up, "no {what:?} was printed:\n{}", self.printed());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of the program, and for all that it has printed.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(&mut self) -> ExitStatus {
        let status = wait_for("the program to end", || self.child.try_wait().expect("the process is ours"));
        if let Some(reader) = self.reader.take() {
            reader.join().expect("it does not panic");
        }
        status
    }
}

impl Drop for PtyProgram {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps the output of the program until the terminal is closed.
fn read(mut controller: File, printed: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = controller.read(&mut buffer) {
            printed.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
        }
    })
}
