//! Commands without an address: they believe only instances of root and of the caller.

use std::{
    fs,
    process::{Command, Stdio},
};

use orchestrator_harness::TestEnv;
use rustix::process::geteuid;

/// Runs with a network and a `/run` of its own. User 65534 listens at the default address, later in a
/// directory of `/run`, and answers every request. Arguments: program, file with a token, configuration.
/// Prints the code and the errors of each command, and what that user has received.
const SCRIPT: &str = r#"
import fcntl, os, socket, struct, subprocess, sys, time
program, token, config = sys.argv[1:]
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", 0x41))  # SIOCSIFFLAGS: up
subprocess.check_call(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"])
received, children = os.pipe(), []
def foreign(listen):
    listens = os.pipe()
    children.append(os.fork())
    if children[-1] == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        listener = listen(); os.write(listens[1], b"x")
        while True:
            peer, _ = listener.accept()
            data = peer.recv(65536)
            os.write(received[1], data)
            if data: peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            peer.close()
    os.read(listens[0], 1)
def end(): pid = children.pop(); os.kill(pid, 9); os.waitpid(pid, 0)
def command(*words):
    ran = subprocess.run([program, *words], capture_output=True, text=True, timeout=120)
    print(words[-1], ran.returncode, ran.stderr.strip(), flush=True)
def unix():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("/run/other/admin.sock"); listener.listen(); return listener
instance = None
try:
    foreign(lambda: socket.create_server(("127.0.0.1", 7117)))
    command("tree")
    command("--token-file", token, "why")
    os.mkdir("/run/orchestrator", mode=0o755)
    log = open(config + ".log", "wb")
    instance = subprocess.Popen([program, "run", "--config", config], stdout=log, stderr=log)
    until = time.monotonic() + 60
    while subprocess.run([program, "--socket", "/run/orchestrator/admin.sock", "tree"], capture_output=True).returncode:
        assert time.monotonic() < until and instance.poll() is None, open(config + ".log").read()
    command("--token-file", token, "graph")
    instance.terminate(); instance.wait(60)
    end()
    os.mkdir("/run/other", mode=0o755); os.chown("/run/other", 65534, 65534)
    foreign(unix)
    command("open")
    os.close(received[1])
    print("received", end() or os.read(received[0], 65536), flush=True)
finally:
    if instance: instance.kill()
    while children: end()
"#;

#[test]
fn a_listener_of_another_user_at_the_default_address_gets_no_request() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can start a listener of another user");
        return;
    }
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let path = |name: &str| env.path().join(name);
    fs::write(path("token"), "S3CR3T\n").expect("a token");
    let text = format!(
        "[queue]\ndatabase = '{0}/q.db'\ninput_dir = '{0}/in'\nsocket = '{0}/w.sock'\n
         [admin]\nlisten = ''\nunix_socket = '/run/orchestrator/admin.sock'\n",
        env.path().display()
    );
    fs::create_dir_all(path("in")).expect("a directory");
    fs::write(path("c.toml"), text).expect("a configuration");
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount", "python3", "-c", SCRIPT, env!("CARGO_BIN_EXE_orchestrator")]);
    unshare.args([path("token"), path("c.toml")]).current_dir(env.path()).stdin(Stdio::null());
    for name in ["ORCHESTRATOR_SOCKET", "ORCHESTRATOR_URL", "RUNTIME_DIRECTORY"] {
        unshare.env_remove(name);
    }
    let output = unshare.output().expect("util-linux and Python");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<_> = out.lines().collect();
    let foreign = "cannot reach http://127.0.0.1:7117: user 65534 listens there, and is neither root nor you";
    assert!(lines[0].starts_with("tree 3 ") && lines[0].contains(foreign), "{out}");
    assert!(lines[1].contains("only an address that is named gets the token"), "{out}");
    assert_eq!(lines[2], "graph 0 ", "the socket in /run comes first: {out}");
    let foreign = "user 65534 listens at /run/other/admin.sock, and is neither root nor you";
    assert!(lines[3].starts_with("open 2 ") && lines[3].contains(foreign), "{out}");
    assert_eq!(lines[4..], ["received b''"], "{out}");
}
