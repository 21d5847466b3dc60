//! `orchestrator why` for the catalog subsystem.

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

#[test]
fn a_parked_rule_is_named_with_the_words_of_the_server() {
    let server = Ermrest::start(&[]);
    let missing = FULL_RULE.replace("\"work\"", "\"missing\"").replace("\"Foo\"", "\"Nowhere\"");
    let site = CatalogEnv::new(BINARY, &server).rule(FULL_RULE).rule(&missing);
    let _instance = site.start();
    server.insert_foo(1, "actionable");
    let cause = site.base().first_cause("catalog", "the server refuses the rule");
    assert_eq!(cause.path, "catalog/lab/rules/missing");
    assert!(cause.text.contains("409") && cause.text.contains("Nowhere"), "{cause:?}");
    assert!(cause.evidence[0].starts_with("the rule asks again "), "{cause:?}");
    let commands = "orchestrator catalog check missing; then orchestrator catalog run-once missing";
    assert_eq!(cause.help, commands);
    // The other rule works.
    let works = || site.base().why("catalog/lab/rules/work");
    orchestrator_harness::eventually("its last row", || works().contains("nothing holds up work: last row "));
}
