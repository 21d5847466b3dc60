//! The quick starts of the subsystems' pages, run as they stand, each in an empty directory.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

const PAGES: [&str; 5] = ["queue", "provenance", "ingester", "producer", "catalog"];

/// Limit of one quick start, seconds.
const LIMIT_SECS: &str = "60";

/// Character that a script prints after each block.
const END_OF_BLOCK: char = '\u{1e}';

/// The commands of a page's quick start, and what they print.
struct QuickStart {
    /// The `sh` blocks. Those with `needs=` want a server that is not part of the program.
    script: String,
    /// Each `text` block, with the number of `sh` blocks before it.
    texts: Vec<(usize, String)>,
}

impl QuickStart {
    fn of(page: &str) -> Self {
        let section =
            page.split("\n## ").find(|section| section.starts_with("Quick start")).expect("a quick start");
        let (mut script, mut texts, mut count) = (String::new(), Vec::new(), 0);
        let mut lines = section.lines();
        while let Some(line) = lines.next() {
            let Some(info) = line.strip_prefix("```") else { continue };
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            match info {
                "sh" => {
                    script.push_str(&format!("{}\nprintf '{END_OF_BLOCK}'\n", block.join("\n")));
                    count += 1;
                }
                "text" => texts.push((count, block.join("\n"))),
                _ => {}
            }
        }
        Self { script, texts }
    }

    /// Compares each `text` block with the output of the blocks since the one before.
    fn compare(&self, name: &str, output: &str) {
        let printed: Vec<_> = output.split(END_OF_BLOCK).collect();
        let mut from = 0;
        for (to, text) in &self.texts {
            let printed = printed[from..*to].concat();
            assert_eq!(
                without_seconds(text),
                without_seconds(printed.trim_end()),
                "{name}: the page, the output"
            );
            from = *to;
        }
    }
}

/// Removes the value of each field `seconds`.
fn without_seconds(text: &str) -> String {
    let mut parts = text.split("\"seconds\": ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

/// Runs a script with `orchestrator` on the path and its admin endpoint on a socket of its own. Returns its
/// standard output.
fn run(name: &str, script: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let (bin, work) = (folder.path().join("bin"), folder.path().join("work"));
    fs::create_dir(&bin).expect("make a folder");
    fs::create_dir(&work).expect("make a folder");
    symlink(env!("CARGO_BIN_EXE_orchestrator"), bin.join("orchestrator")).expect("link the program");
    let socket = folder.path().join("admin.sock");
    let path = format!("{}:{}", bin.display(), env::var("PATH").expect("a path"));
    let output = Command::new("timeout")
        .args(["--kill-after=5", LIMIT_SECS, "bash", "-euo", "pipefail", "-c", script])
        .current_dir(&work)
        .env("PATH", path)
        .env("ORCHESTRATOR__ADMIN__LISTEN", "")
        .env("ORCHESTRATOR__ADMIN__UNIX_SOCKET", &socket)
        .env("ORCHESTRATOR_SOCKET", &socket)
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs");
    assert!(
        output.status.success(),
        "{name}: {}\n{script}\n--- output\n{}\n--- errors\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn quick_start(name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("actors").join(name).join("README.md");
    let page = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let quick_start = QuickStart::of(&page);
    assert!(quick_start.script.contains("orchestrator "), "{name}: the quick start runs nothing");
    quick_start.compare(name, &run(name, &quick_start.script));
}

#[test]
fn each_page_has_a_quick_start() {
    for name in PAGES {
        quick_start(name);
    }
}

#[test]
#[should_panic(expected = "a broken quick start")]
fn a_command_that_fails_is_noticed() {
    run("a broken quick start", "orchestrator nonsense; echo unreachable");
}

#[test]
#[should_panic(expected = "the page, the output")]
fn a_text_that_is_not_printed_is_noticed() {
    let page = "## Quick start\n```sh\necho a\n```\n```sh\necho b\n```\n```text\nb\n```\n".to_owned();
    let quick_start = QuickStart::of(&format!("# Page\n\n{page}"));
    quick_start.compare("page", &run("page", &quick_start.script));
}
