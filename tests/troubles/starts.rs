//! Starts that are refused with exit code 78: the message says what to do.

use std::{fs, net::TcpListener};

use orchestrator_harness::{IngesterEnv, Instance, TestEnv};

use crate::{
    BINARY,
    answer::Trouble,
    input::{WITHOUT_CAPABILITIES, set_mode},
};

#[test]
fn a_directory_that_may_not_be_written_is_named() {
    let env = TestEnv::new(BINARY).shell(WITHOUT_CAPABILITIES);
    let directory = env.path().join("site");
    fs::create_dir(&directory).expect("a directory");
    set_mode(&directory, 0o555);
    let mut command = env.bare_command();
    command.current_dir(&directory);
    let trouble = Trouble::begins("the directory for the data may not be written");
    let line = trouble.refuses_the_start(&env, Instance::spawn(command), "cannot create directory var");
    assert!(line.contains("Permission denied (os error 13): create it for this user, or "), "{line}");
    set_mode(&directory, 0o755);
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_named_with_its_key() {
    let env = TestEnv::new(BINARY).set(&format!("queue.socket=/tmp/{}", "x".repeat(120)));
    let trouble = Trouble::begins("the path of a socket is too long");
    let line = trouble.refuses_the_start(&env, env.spawn(), "queue.socket: ");
    assert!(line.contains("the path of a socket has at most 107 bytes: write a shorter one"), "{line}");
}

#[test]
fn a_port_of_an_ingester_that_is_in_use_is_named() {
    let env = IngesterEnv::new(BINARY, "tcp://127.0.0.1:1", "");
    let _other = TcpListener::bind(("127.0.0.1", env.port)).expect("it is free");
    let trouble = Trouble::begins("the workers' port of an ingester is in use");
    let line = trouble.refuses_the_start(&env.base, env.spawn(), "the port is in use");
    assert!(line.contains("stop the process that listens there, or choose another port"), "{line}");
    assert!(line.contains(&format!(":{}", env.port)), "{line}");
}
