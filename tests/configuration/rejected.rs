//! `config/rejected/` holds configurations that are refused. Each begins with its expected errors, one line
//! `# expect: LINE: KEY: TEXT` per error. The program reports exactly these, all at once.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

/// Minimum number of configurations, each with another kind of error.
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
        let reported: Vec<_> = lines.lines().map(str::to_owned).collect();
        assert!(
            head.starts_with(&format!("orchestrator: the configuration has {} error", reported.len())),
            "{head}"
        );
        let reported: BTreeSet<_> = reported.into_iter().collect();
        for line in expected.difference(&reported) {
            wrong.push_str(&format!("not reported: {line}\n"));
        }
        for line in reported.difference(&expected) {
            wrong.push_str(&format!("reported but not expected: {line}\n"));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(several >= 10, "only {several} have several errors");
}
