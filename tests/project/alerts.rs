//! Each alert fires in a test of Prometheus's own tool, which `tests/run` installs.

use std::{fs, path::Path, process::Command};

#[test]
fn each_alert_fires_in_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("tests/project/alerts");
    let output = Command::new("promtool")
        .args(["test", "rules", "fires.yml"])
        .current_dir(&folder)
        .output()
        .expect("promtool is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = |file: &Path, prefix: &str| -> Vec<String> {
        let text = fs::read_to_string(file).expect("the file");
        text.lines().filter_map(|line| line.trim().strip_prefix(prefix)).map(str::to_owned).collect()
    };
    let alerts = names(&root.join("deploy/alerts.yml"), "- alert: ");
    assert!(alerts.len() > 20, "{alerts:?}");
    assert_eq!(names(&folder.join("fires.yml"), "- name: "), alerts);
}
