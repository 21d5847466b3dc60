//! Start of the Python process.

use std::{
    io,
    net::SocketAddr,
    os::{fd::OwnedFd, unix::net::UnixStream as BlockingStream},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use orchestrator_edge::process::{Environment, Process};
use orchestrator_supervise::DurableView;
use serde_json::json;
use tokio::{
    net::UnixStream,
    process::{ChildStderr, Command},
};

use crate::{class_path::ClassPath, mapping::Mappings};

/// Program that the process runs; it imports the class from the site's environment.
const SHIM: &str = include_str!("shim.py");
/// Reads the program from standard input, a socket, and runs it. The working directory, whose name in the
/// path is empty, comes last, as in dranspose: its files must not stand in for modules of Python.
const BOOTSTRAP: &str = "import sys; sys.path.sort(key=lambda path: not path); \
    import socket; control = socket.socket(fileno=0); \
    exec(compile(control.recv(int(sys.argv[1]), socket.MSG_WAITALL), 'orchestrator_ingester.py', 'exec'))";

/// Settings of the process of one class.
pub(crate) struct Launch {
    /// Interpreter as configured, see [`interpreter`].
    pub(crate) python: PathBuf,
    /// The class.
    pub(crate) class: ClassPath,
    /// Streams of the class, with their positions among all streams.
    pub(crate) streams: Vec<(usize, Arc<str>)>,
    /// Name of the ingester.
    pub(crate) name: String,
    /// Address that workers dial.
    pub(crate) url: String,
    /// URL of Redis, which the class may use.
    pub(crate) redis_url: String,
    /// Address of the source.
    pub(crate) upstream_url: Option<String>,
    /// Address on which an HTTP application is served; None for a class.
    pub(crate) listen: Option<SocketAddr>,
    /// Environment of the process, without the variables that it always gets.
    pub(crate) environment: Environment,
    /// The current mapping.
    pub(crate) mappings: DurableView<Mappings>,
}

/// A running process.
pub(super) struct Running {
    pub(super) process: Process,
    /// Socket that is the standard input of the process.
    pub(super) control: UnixStream,
    pub(super) stderr: Option<ChildStderr>,
}

impl Launch {
    /// Starts the process.
    ///
    /// # Errors
    /// It cannot be started; nothing runs then.
    pub(super) fn start(&self) -> io::Result<Running> {
        let (ours, theirs) = BlockingStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(interpreter(&self.python));
        command.args(["-c", BOOTSTRAP]).arg(SHIM.len().to_string()).arg(self.class.to_string());
        self.environment.apply(&mut command);
        // The name that takes precedence in dranspose.
        command.env("SERVICE_REDIS_DSN", &self.redis_url).env("PYTHONUNBUFFERED", "1");
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        let control = UnixStream::from_std(ours)?;
        let (process, pipes) = Process::start(command)?;
        Ok(Running { process, control, stderr: pipes.stderr })
    }

    /// First bytes on standard input: the program, and its settings as a line of JSON.
    pub(super) fn preamble(&self) -> Vec<u8> {
        let streams: serde_json::Map<_, _> =
            self.streams.iter().map(|(position, name)| (name.to_string(), json!(position))).collect();
        let settings = json!({
            "class": self.class.to_string(), "streams": streams, "name": self.name, "url": self.url,
            "upstream_url": self.upstream_url, "parent": std::process::id(),
            "listen": self.listen.map(|address| json!([address.ip(), address.port()])),
        });
        format!("{SHIM}{settings}\n").into_bytes()
    }
}

/// Name of the interpreter by default.
const PYTHON: &str = "python3";

/// The interpreter of the virtual environment in which this program is installed, unless another one is
/// configured. A name without a slash is looked up in `PATH`.
fn interpreter(configured: &Path) -> PathBuf {
    let own = std::env::current_exe().ok().filter(|_| configured == Path::new(PYTHON));
    own.and_then(|program| of_environment(&program)).unwrap_or_else(|| configured.into())
}

fn of_environment(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let python = folder.join(PYTHON);
    (folder.parent()?.join("pyvenv.cfg").exists() && python.exists()).then_some(python)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_a_virtual_environment_takes_its_interpreter() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("bin")).expect("a directory");
        std::fs::write(path("bin/python3"), "").expect("a file");
        let program = path("bin/orchestrator");
        assert_eq!(of_environment(&program), None, "such as /usr/bin");
        std::fs::write(path("pyvenv.cfg"), "").expect("a file");
        assert_eq!(of_environment(&program), Some(path("bin/python3")));
        std::fs::remove_file(path("bin/python3")).expect("a file");
        assert_eq!(of_environment(&program), None);
        assert_eq!(interpreter(Path::new("/opt/python3")), Path::new("/opt/python3"));
    }

    /// Appends a text to the frames, which is no bytes, and reports the exception.
    const CHECK: &str = r#"
async def check():
    ours, theirs = socket.socketpair()
    output = Output(asyncio.get_running_loop(), theirs)
    output.write("i", "T", [b"whole"])
    try:
        output.write("i", "T", [b"first", "text"])
    except TypeError:
        output.write("e", "no")
    await output.drain()
    print(ours.recv(1000).hex())
asyncio.run(check())
"#;

    /// The report of the exception would be taken for the last part of an item.
    #[test]
    fn an_item_that_cannot_be_encoded_leaves_nothing_in_the_stream() {
        let program = SHIM.replace("sys.exit(begin(control))", CHECK);
        let run = std::process::Command::new("python3").args(["-c", &program]).output().expect("Python");
        let text = String::from_utf8_lossy(&run.stdout);
        let expected: String =
            b"\x01\x02iT\x00\x05whole\x00\x03eno".map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(text.trim(), expected, "{}", String::from_utf8_lossy(&run.stderr));
    }

    #[test]
    fn files_of_the_working_directory_do_not_replace_modules_of_python() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("socket.py"), "raise SystemExit(7)").expect("a module");
        let mut command = std::process::Command::new("python3");
        let run =
            command.args(["-c", BOOTSTRAP, "0"]).current_dir(directory.path()).stdin(Stdio::null()).output();
        let run = run.expect("Python");
        assert_eq!(run.status.code(), Some(1), "only the missing socket is an error: {run:?}");
    }
}
