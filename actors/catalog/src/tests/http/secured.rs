//! TLS: verification of certificates.

use std::path::Path;

use orchestrator_harness::{CERTIFICATE_CASES, Ermrest, Faktory, certificate_file};

use super::fixture::*;
use crate::{
    edge::{credentials::Source, http::CatalogEndpoint},
    service::RequestError,
};

const FOO: &str = "/entity/Foo";

fn asked(base: &str, ca_file: Option<&Path>, unverified: &[&str], judge: impl Fn(Result<(), RequestError>)) {
    let hosts: Vec<String> = unverified.iter().map(|&host| host.to_owned()).collect();
    let (catalog, spec) = with(CatalogEndpoint::new(base, ca_file, &hosts).unwrap(), Source::Anonymous);
    TestTree::run(spec, async |_tree| judge(get(&catalog, FOO).await.map(drop)));
}

#[test]
fn a_certificate_is_verified_unless_its_host_is_exempt() {
    let server = Ermrest::start_tls(&[]);
    let authority = Faktory::ca_file();
    let url = server.url();
    asked(&url, Some(&authority), &[], |answer| assert_eq!(answer, Ok(())));
    asked(&url, None, &["other", "LocalHost"], |answer| assert_eq!(answer, Ok(())));
    let refused = |answer: Result<(), RequestError>| {
        let Err(RequestError::Unavailable(text)) = answer else { panic!("{answer:?}") };
        assert!(text.contains("TLS: ") && text.contains("ca_file has the authority"), "{text}");
    };
    asked(&url, None, &[], refused);
    asked(&url, None, &["other"], refused);
    // The certificate is valid for another name.
    let by_address = url.replace("localhost", "127.0.0.1");
    asked(&by_address, Some(&authority), &[], refused);
    asked(&by_address, None, &["localhost"], refused);
    // Configured authorities override `unverified_hosts`.
    asked(&by_address, Some(&authority), &["127.0.0.1"], refused);
}

#[test]
fn a_catalog_is_judged_by_its_certificate() {
    let key = certificate_file("server").with_extension("key").display().to_string();
    for cases in CERTIFICATE_CASES.chunk_by(|one, next| one.shown == next.shown) {
        let shown = certificate_file(cases[0].shown).display().to_string();
        let server = Ermrest::start_tls(&["--tls", &shown, &key]);
        for case in cases {
            let base = server.url().replace("localhost", case.host);
            asked(&base, Some(&certificate_file(case.authority)), &[], |answer| match answer {
                Ok(()) => case.judge(None),
                Err(RequestError::Unavailable(reason)) => case.judge(Some(&reason)),
                Err(other) => panic!("{case:?}: {other:?}"),
            });
        }
    }
}
