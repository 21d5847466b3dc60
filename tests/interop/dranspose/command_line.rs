//! The command line of dranspose 0.2.0, as its parser has it, and Redis over TLS.

use std::process::Command;

use orchestrator_harness::{
    Redis, TestEnv,
    dranspose::{Deployment, IngesterSpec, Map, Source, check_scan, run_program, series},
};
use serde_json::{Value, json};

use super::BINARY;

/// Value of an option of dranspose.
fn value_of(target: &str) -> &'static str {
    match target {
        "ingesterclass" => "ZmqPullSingleIngester",
        "ingesterapp" => "dranspose.ingesters.http_sardana:app",
        "upstream_url" => "tcp://127.0.0.1:9",
        "name" => "eiger",
        "host" => "127.0.0.1",
        "port" => "5001",
        other => panic!("dranspose has another option: {other}"),
    }
}

/// Configuration that our command line gives for the words of dranspose's.
fn configuration(program: &str, words: &[String]) -> Value {
    let env = TestEnv::new(BINARY);
    let arguments = ["as", "--print-config", program];
    let words = words.iter().flat_map(|word| word.split(' '));
    let (code, text, error) = env.cli(&arguments.into_iter().chain(words).collect::<Vec<_>>());
    assert_eq!(code, 0, "{error}");
    let config: Value = toml::from_str(&text).expect("TOML");
    config["ingester"][0].clone()
}

/// Each long option, each beginning of one that dranspose takes, and both ways to give its value.
#[test]
fn each_long_option_of_the_original_is_taken() {
    let commands: Value = serde_json::from_str(&run_program("options.py", &[])).expect("JSON");
    for (command, stream) in [
        ("ingester", json!({"upstream_url": value_of("upstream_url"), "source": value_of("ingesterclass")})),
        ("http_ingester", json!({"listen": "127.0.0.1:5001", "source": "HttpSardanaIngester"})),
    ] {
        let program = format!("dranspose-{}", command.replace('_', "-"));
        let options = commands[command].as_array().expect("options");
        let words = |tested: &str, text: &str| -> Vec<String> {
            let targets = options.iter().filter_map(|option| option["target"].as_str());
            let option = |target: &str| match target == tested {
                true => text.to_owned(),
                false => format!("--{target} {}", value_of(target)),
            };
            targets.filter(|target| *target != "help").map(option).collect()
        };
        let wanted = configuration(&program, &words("", ""));
        for (key, value) in stream.as_object().expect("keys") {
            assert_eq!(wanted["stream"][0][key], *value, "{command}: {wanted}");
        }
        assert_eq!(wanted["name"], "eiger-ingester");
        for option in options {
            let target = option["target"].as_str().expect("a name");
            let spellings = option["spellings"].as_array().expect("texts");
            assert!(!spellings.is_empty());
            for spelling in spellings.iter().filter_map(Value::as_str) {
                if target == "help" {
                    let output = Command::new(BINARY).args(["as", &program, spelling]).output();
                    assert!(output.expect("it runs").status.success(), "{command} {spelling}");
                    continue;
                }
                for between in [" ", "="] {
                    let text = format!("{spelling}{between}{}", value_of(target));
                    let config = configuration(&program, &words(target, &text));
                    assert_eq!(config, wanted, "{command} {text}");
                }
            }
        }
    }
}

/// `REDIS_URL=rediss://..` with the authorities in `SSL_CERT_FILE`, as Python's library takes them.
#[test]
fn redis_over_tls() {
    let mut deployment = Deployment::start_with(Redis::start_with_tls(), BINARY);
    let mut source = Source::push();
    let spec = IngesterSpec::stins(&source.url(), "eiger")
        .with("REDIS_URL", &deployment.redis.tls_url())
        .with("SSL_CERT_FILE", &Redis::ca_file().display().to_string());
    let _ingester = deployment.start_ingester(&spec);
    deployment.start_workers(&["w1", "w2"]);
    let scan = deployment.post_mapping(&Map::of_stream("eiger", 20));
    let sent = source.send(&series("over-tls", 20, 5_000));
    deployment.wait_for_end(&scan);
    check_scan(&deployment, &scan, &[("eiger", "STINS", &sent)], true);
}
