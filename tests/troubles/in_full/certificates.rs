//! A server's certificate that has expired: the instance runs in the year 2121 (libfaketime), after those of
//! the tests.

use std::{fs, process::Command};

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, Instance, Redis, eventually, free_port};

use crate::{
    BINARY,
    answer::{Trouble, run_help},
};

/// Starts a command whose clock is a hundred years ahead.
fn start_in_2121(mut command: Command) -> Instance {
    let directories = fs::read_dir("/usr/lib").expect("/usr/lib").map_while(Result::ok);
    let mut found = directories.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    let library = found.find(|path| path.exists()).expect("libfaketimeMT.so.1 is missing: install faketime");
    command.env("LD_PRELOAD", library).env("FAKETIME", "+36500d");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    Instance::spawn(command)
}

#[test]
fn a_certificate_that_has_expired_is_named_with_its_end() {
    let (redis, server) = (Redis::start_with_tls(), Ermrest::start_tls(&[]));
    let authority = Redis::ca_file().display().to_string();
    let site = CatalogEnv::new(BINARY, &server).key(&format!("ca_file = {authority:?}")).rule(FULL_RULE);
    let of_redis = format!(
        "[[ingester]]\nname = \"in\"\nlisten = \"127.0.0.1:{}\"\nredis_url = {:?}\nredis_ca_file = {authority:?}\n\
         [[ingester.stream]]\nname = \"eiger\"\nsource = \"stins\"\nupstream_url = \"tcp://127.0.0.1:1\"\n",
        free_port(),
        redis.tls_url(),
    );
    let site = site.rule(&of_redis);
    let mut command = site.base().bare_command();
    command.args(["run", "--config"]).arg(site.write());
    let socket = format!("admin.unix_socket={}", site.base().admin_socket().display());
    command.args(["--set", "admin.listen=\"\"", "--set", &socket]);
    let trouble = Trouble::begins("a server's certificate has expired");
    let _instance = start_in_2121(command);
    eventually("the endpoint", || site.base().snapshot().is_some());
    let cause = trouble.shows_first(site.base(), "ingester", "the certificate expired on 2120-");
    assert!(cause.help.starts_with("openssl s_client "), "{cause:?}");
    assert!(run_help(site.base(), &cause.help).contains("notAfter="), "{cause:?}");
    let cause = site.base().first_cause("catalog", "the certificate expired on 2120-");
    assert!(run_help(site.base(), &cause.help).contains("notAfter="), "{cause:?}");
}
