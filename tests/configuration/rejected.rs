//! `config/rejected/` holds configurations that are refused. Each begins with what is wrong with it, a line
//! `# expect: LINE: KEY: TEXT` for everything: the program says exactly that, all at once.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

/// Fewest configurations; each is there for a different kind of mistake.
const FEWEST: usize = 20;

#[test]
fn every_error_of_a_rejected_configuration_is_reported_at_once() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/rejected");
    let mut files: Vec<_> =
        fs::read_dir(&directory).expect("the directory").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    assert!(files.len() >= FEWEST, "there are only {}", files.len());
    let (mut wrong, mut several) = (String::new(), 0);
    for file in files {
        let text = fs::read_to_string(&file).expect("UTF-8");
        let expected: BTreeSet<_> = text
            .lines()
            .map_while(|line| line.strip_prefix("# expect: "))
            .map(|rest| format!("{}:{rest}", file.display()))
            .collect();
        assert!(!expected.is_empty(), "{} expects nothing", file.display());
        several += usize::from(expected.len() > 1);
        let output = Command::new(env!("CARGO_BIN_EXE_orchestrator"))
            .args(["check", "--config", &file.display().to_string()])
            .output()
            .expect("run check");
        assert_eq!(output.status.code(), Some(78), "{}", file.display());
        assert!(output.stdout.is_empty(), "a refused configuration prints no tree");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        let (head, lines) = stderr.split_once('\n').expect("a headline");
        let told: Vec<_> = lines.lines().map(str::to_owned).collect();
        assert!(
            head.starts_with(&format!("orchestrator: the configuration has {} error", told.len())),
            "{head}"
        );
        let told: BTreeSet<_> = told.into_iter().collect();
        for line in expected.difference(&told) {
            wrong.push_str(&format!("not told: {line}\n"));
        }
        for line in told.difference(&expected) {
            wrong.push_str(&format!("told but not expected: {line}\n"));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(several >= 10, "only {several} have several errors");
}
