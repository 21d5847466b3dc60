//! The command blocks of README.md, pasted as they stand into two terminals at once.

use std::{
    env, fs,
    io::Write,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
};

use rustix::process::{Pid, Signal, kill_process_group};

/// Directories in which the blocks are pasted.
const ROUNDS: usize = 20;
/// Directories at a time.
const LANES: usize = 4;
/// Limit of a block, seconds.
const LIMIT_SECS: &str = "60";

/// `cargo run --release` without the build.
const CARGO: &str = "#!/bin/sh\n\
    [ \"$1 $2\" = 'run --release' ] || { echo \"unexpected: cargo $*\" >&2; exit 1; }\n\
    shift 2\n\
    [ \"$1\" != -- ] || shift\n\
    exec orchestrator \"$@\"\n";

/// The indented blocks of a section, each as one text.
fn blocks(page: &str, section: &str) -> Vec<String> {
    let text = page.split("\n## ").find(|text| text.starts_with(section)).expect("the section");
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        match line.strip_prefix("    ") {
            Some(command) => blocks.last_mut().expect("never empty").push_str(&format!("{command}\n")),
            None => blocks.push(String::new()),
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// Pastes a block into a shell in `folder/work`. A command that read the terminal would take the lines after
/// it.
fn paste(folder: &Path, block: &str) -> Child {
    let socket = folder.join("admin.sock");
    let path = format!("{}:{}", folder.join("bin").display(), env::var("PATH").expect("a path"));
    let mut shell = Command::new("timeout")
        .args(["--foreground", "--kill-after=5", LIMIT_SECS, "bash"])
        .current_dir(folder.join("work"))
        .env("PATH", path)
        .env("ORCHESTRATOR__ADMIN__LISTEN", "")
        .env("ORCHESTRATOR__ADMIN__UNIX_SOCKET", &socket)
        .env("ORCHESTRATOR_SOCKET", &socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("timeout runs");
    shell.stdin.take().expect("piped").write_all(block.as_bytes()).expect("the shell reads");
    shell
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).expect("make a folder");
    fs::create_dir(folder.path().join("work")).expect("make a folder");
    symlink(env!("CARGO_BIN_EXE_orchestrator"), bin.join("orchestrator")).expect("link the program");
    fs::write(bin.join("cargo"), CARGO).expect("write a program");
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).expect("a mode");
    folder
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn both_blocks_of_the_readme_work_pasted() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("the page");
    let (install, first_run) = (blocks(&page, "Install"), blocks(&page, "First run"));
    let ([start], [use_it]) = (&install[..], &first_run[..]) else { panic!("{install:?} {first_run:?}") };
    let round = || {
        let folder = folder();
        let instance = paste(folder.path(), start);
        // A reader who comes back pastes the second block again.
        for time in ["first", "second"] {
            let output = paste(folder.path(), use_it).wait_with_output().expect("it ends");
            let said = text(&output);
            assert!(output.status.success(), "the {time} time: {said}");
            assert!(said.starts_with("JOB hello 1.0 1.1\nNOJOBS\n"), "the {time} time: {said}");
            assert!(said.contains("worker_socket") && said.contains("sqlite up"), "{said}");
        }
        kill_process_group(Pid::from_child(&instance), Signal::TERM).expect("it runs");
        let said = text(&instance.wait_with_output().expect("it ends"));
        assert!(said.contains("take it:"), "{said}");
    };
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| (0..ROUNDS / LANES).for_each(|_| round()));
        }
    });
}
