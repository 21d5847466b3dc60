//! Programs that plan claims, as real processes (CONTRACT CP17).

use std::{fs, path::Path, time::Duration};

use orchestrator_catalog_rules::rows::Row;
use orchestrator_edge::process::Environment;
use orchestrator_supervise::testing::eventually;
use serde_json::{Value, json};

use crate::edge::handlers::{PlanAnswers, Planner};

/// Limit of a line, in bytes.
const LINE: usize = 4_096;

fn planner(argv: &[&str]) -> Planner {
    let argv = argv.iter().map(|&argument| argument.to_owned()).collect();
    Planner::new("work", argv, None, Environment::default()).limits(Duration::from_secs(60), LINE)
}

fn shell(script: &str) -> Planner {
    planner(&["/bin/sh", "-c", script])
}

fn rows(rows: &[Value]) -> Vec<Row> {
    rows.iter().map(|row| serde_json::from_value(row.clone()).expect("an object")).collect()
}

fn numbered(count: usize) -> Vec<Row> {
    rows(&(0..count).map(|id| json!({ "id": id })).collect::<Vec<_>>())
}

/// Rows that are left are null.
fn answers(planned: PlanAnswers) -> Vec<Value> {
    assert_eq!(planned.failure, None);
    planned.answers.into_iter().map(|answer| json!(answer.expect("an answer"))).collect()
}

async fn failure(planner: &Planner, rows: &[Row]) -> String {
    let planned = planner.plan(rows).await;
    assert_eq!(planned.answers, []);
    planned.failure.expect("a failure")
}

#[tokio::test]
async fn each_row_is_a_line_and_each_answer_is_one() {
    let planner = planner(&["/bin/cat"]);
    let sent = rows(&[json!({"id": 1, "text": "a\nb \u{2028} é"}), json!({})]);
    let back: Vec<Value> = sent.iter().map(|row| json!(row)).collect();
    assert_eq!(answers(planner.plan(&sent).await), back);
    let nulls = shell("while read -r row; do echo null; done");
    assert_eq!(answers(nulls.plan(&numbered(3)).await), [Value::Null, Value::Null, Value::Null]);
}

#[tokio::test]
async fn one_program_answers_all_polls_and_is_started_again_when_it_has_ended() {
    let planner = shell(
        "while read -r row; do echo \"{\\\"pid\\\": $$, \\\"rule\\\": \\\"$ORCHESTRATOR_RULE\\\"}\"; done",
    );
    let first = answers(planner.plan(&numbered(2)).await);
    assert_eq!((&first[0], &first[0]["rule"]), (&first[1], &json!("work")));
    assert_eq!(answers(planner.plan(&numbered(1)).await)[0], first[0]);
    let pid = first[0]["pid"].to_string();
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().expect("kill").success());
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    eventually("it to end", || !stat().contains(") S ") && !stat().contains(") R ")).await;
    assert_ne!(answers(planner.plan(&numbered(1)).await)[0], first[0]);
    // Also one that ends after each answer.
    let once = shell("read -r row; echo \"$row\"");
    for _ in 0..3 {
        assert_eq!(once.plan(&numbered(1)).await.failure, None);
    }
}

#[tokio::test]
async fn a_row_that_ends_the_program_differs_from_a_program_that_never_works() {
    let script =
        "while read -r row; do case $row in *3*) echo 'no such column' >&2; exit 7;; esac; echo null; done";
    let planner = shell(script);
    let planned = planner.plan(&numbered(6)).await;
    assert_eq!((planned.answers.len(), &planned.failure), (4, &None), "three are answered");
    let reason = planned.answers[3].as_ref().expect_err("the fourth");
    let wanted = "/bin/sh ended without an answer (exit status: 7): no such column";
    assert_eq!(reason, wanted);
    // As the first row it may be the program: the caller begins with another one.
    assert_eq!(failure(&planner, &numbered(6)[3..]).await, wanted);
    assert_eq!(planner.failures(), 1);
    assert_eq!(failure(&planner, &numbered(6)[3..]).await, wanted);
    assert_eq!(planner.failures(), 2);
    assert_eq!(planner.plan(&numbered(1)).await.failure, None);
    assert_eq!(planner.failures(), 0);
    let missing = failure(&self::planner(&["/nowhere/plan"]), &numbered(1)).await;
    assert!(missing.starts_with("/nowhere/plan cannot be started: No such file"), "{missing}");
    assert!(missing.ends_with("or change plan.argv"), "{missing}");
}

#[tokio::test]
async fn unreadable_answers_end_the_program() {
    for (script, wanted) in [
        ("read -r row; echo nonsense; cat", "answered `nonsense`"),
        ("read -r row; echo '[1]'; cat", "answered `[1]`"),
        ("read -r row; echo; cat", "answered ``"),
        ("read -r row; printf 'null\\nnull\\n'; cat", "answered a row with more than one line"),
        (
            "read -r row; head -c 100000 /dev/zero | tr '\\0' x; echo; cat",
            "answered with more than 4096 bytes",
        ),
        ("read -r row; yes {", "answered"),
        ("exit 0", "ended without an answer (exit status: 0)"),
    ] {
        let planner = shell(script);
        let reason = failure(&planner, &numbered(2)).await;
        assert!(
            reason.starts_with(&format!("/bin/sh {wanted}")) && reason.len() < 1_000,
            "{script}: {reason}"
        );
    }
}

#[tokio::test]
async fn a_long_row_is_not_sent_and_the_others_are() {
    let planner = planner(&["/bin/cat"]);
    let long = json!({ "id": 2, "text": "x".repeat(LINE) });
    let planned = planner.plan(&rows(&[json!({"id": 1}), long, json!({"id": 3})])).await;
    assert!(planned.answers[0].is_ok() && planned.answers[2].is_ok());
    let reason = planned.answers[1].as_ref().expect_err("too long");
    assert_eq!(reason, "the row has more than 4096 bytes: raise plan.line_bytes");
}

#[tokio::test]
async fn much_standard_error_does_not_stop_the_program() {
    let planner = shell("while read -r row; do head -c 1000000 /dev/zero | tr '\\0' e >&2; echo null; done");
    assert_eq!(answers(planner.plan(&numbered(3)).await).len(), 3);
}

#[tokio::test]
async fn the_program_ends_with_its_group_at_the_time_out_and_when_nobody_waits() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {0}.part; mv {0}.part {0}; wait", file.display());
    let argv = ["/bin/sh", "-c", &script].map(str::to_owned).to_vec();
    let started = async || {
        eventually("it to start", || file.exists()).await;
        fs::read_to_string(&file).expect("a process id").trim().to_owned()
    };
    let gone = |pid: String| {
        let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    let new = || Planner::new("work", argv.clone(), None, Environment::default());
    let planner = new().limits(Duration::from_millis(300), LINE);
    let reason = failure(&planner, &numbered(1)).await;
    assert_eq!(reason, "/bin/sh did not answer within 300ms (it is killed)");
    let pid = started().await;
    eventually("its child to end", || gone(pid.clone())).await;
    fs::remove_file(&file).expect("remove");
    let (planner, row) = (new(), numbered(1));
    let pid = tokio::select! {
        _ = planner.plan(&row) => panic!("it answers"),
        pid = started() => pid,
    };
    eventually("its child to end", || gone(pid.clone())).await;
}
