//! Modes of TLS with a real server.

use orchestrator_harness::{CERTIFICATE_CASES, Faktory, Postgres, certificate_file, eventually};

use super::connect;
use crate::edge::postgres::{Flavor, PostgresStore, init};

#[tokio::test]
async fn each_mode_protects_the_connection_or_refuses_the_server() {
    let server = Postgres::start_tls();
    let dsn = server.create_database("tls");
    init(&dsn, Flavor::WithPath).await.expect("tables");
    let authorities = format!("sslrootcert={}", Faktory::ca_file().display());
    let known = |mode: &str| format!("sslmode={mode}&{authorities}");
    // The certificate is for localhost and for no address.
    let (by_name, by_address) =
        (dsn.replace("127.0.0.1", "localhost") + "?hostaddr=127.0.0.1&", dsn.clone() + "?");
    for (number, (address, options, is_protected)) in [
        (&by_address, "sslmode=disable".to_owned(), "f"),
        (&by_address, String::new(), "t"),
        (&by_address, "sslmode=prefer".to_owned(), "t"),
        (&by_address, "sslmode=require".to_owned(), "t"),
        (&by_address, known("require"), "t"),
        (&by_address, known("verify-ca"), "t"),
        (&by_name, known("verify-full"), "t"),
    ]
    .into_iter()
    .enumerate()
    {
        let store = connect(&format!("{address}application_name=number{number}&{options}")).await;
        let sql = format!(
            "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'number{number}'"
        );
        assert_eq!(server.script(&dsn, &sql), is_protected, "{options}");
        drop(store);
    }
    for (address, options) in [
        (&by_address, known("verify-full")),
        // Its authority is none of the public ones.
        (&by_name, "sslmode=verify-full".to_owned()),
    ] {
        let error = PostgresStore::connect(&format!("{address}{options}")).await.expect_err("a certificate");
        assert!(error.to_string().contains("TLS with sslmode=verify-full failed"), "{options}: {error}");
    }
}

#[tokio::test]
async fn a_server_is_judged_by_its_certificate() {
    let server = Postgres::start_tls();
    let dsn = server.create_database("recipes");
    init(&dsn, Flavor::WithPath).await.expect("tables");
    for case in &CERTIFICATE_CASES {
        let shown = format!("../{}.pem", case.shown);
        server.script(&dsn, &format!("ALTER SYSTEM SET ssl_cert_file = '{shown}'"));
        server.script(&dsn, "SELECT pg_reload_conf()");
        // A new session tells what the server has loaded.
        eventually(&shown, || server.script(&dsn, "SHOW ssl_cert_file") == shown);
        let authority = certificate_file(case.authority);
        let dsn = dsn.replace("127.0.0.1", case.host) + "?hostaddr=127.0.0.1";
        // Weaker modes check only the authority.
        let weaker: &[&str] = if case.refused.is_none() { &["verify-ca", "require"] } else { &[] };
        for mode in [&["verify-full"], weaker].concat() {
            let dsn = format!("{dsn}&sslmode={mode}&sslrootcert={}", authority.display());
            let error = PostgresStore::connect(&dsn).await.err().map(|error| error.to_string());
            case.judge(error.as_deref());
        }
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_required() {
    let dsn = Postgres::shared().create_database("without-tls");
    let error = PostgresStore::connect(&format!("{dsn}?sslmode=require")).await.expect_err("no TLS");
    assert!(error.to_string().contains("the server offers no TLS, but sslmode=require"), "{error}");
}
