//! Connection strings of libpq: services, passfiles, variables and several servers. `psql`, which uses libpq,
//! connects or is refused in the same cases, and to the same database.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use orchestrator_harness::{
    PASSWORD_USER, Postgres, ProvenanceEnv, TestEnv, eventually, free_port, psql_with,
};

#[test]
fn connection_strings_mean_what_they_mean_to_psql() {
    let (server, env) = (Postgres::shared(), TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")));
    let home = env.path().display().to_string();
    let first = server.create_database("string0");
    let port = first.rsplit_once(':').and_then(|(_, rest)| rest.split_once('/')).expect("a port").0;
    server.script(&first, &format!("CREATE ROLE {PASSWORD_USER} SUPERUSER LOGIN PASSWORD 'S3C:R3T'"));
    let write = |name: &str, text: &str, mode: u32| {
        let path = env.path().join(name);
        fs::write(&path, text).expect("write");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("permissions");
        path.display().to_string()
    };
    let password = format!("127.0.0.1:{port}:*:{PASSWORD_USER}:S3C\\:R3T\n");
    write(".pgpass", &format!("# ours\nother:*:*:*:no\n{password}"), 0o600);
    let readable = write("readable", &password, 0o644);
    let own = write("own", &format!("*:*:*:*:wrong\n{password}"), 0o600);
    let good = write("good", "*:*:*:*:S3C\\:R3T\n", 0o600);
    let service = |name: &str, rest: &str| format!("[{name}]\nhost=127.0.0.1\nport={port}\n{rest}");
    write(
        ".pg_service.conf",
        &[service("lab", &format!("user={PASSWORD_USER}\ndbname=ignored\n")), service("odd", "nonsense\n")]
            .concat(),
        0o644,
    );
    let services = write("services", &service("lab2", &format!("user={PASSWORD_USER}\n")), 0o644);
    let nobody = free_port();
    let at = format!("host=127.0.0.1 port={port} user={PASSWORD_USER}");
    let two = format!("host=127.0.0.1,127.0.0.1 port={nobody},{port} user={PASSWORD_USER}");
    let no = &[][..];
    let of = |name: &'static str, value: &str| (name, value.to_owned());
    let by_variables = [of("PGHOST", "127.0.0.1"), of("PGPORT", port), of("PGUSER", PASSWORD_USER)];
    let with_password = [&by_variables[..], &[of("PGPASSWORD", "S3C:R3T")]].concat();
    // `DB` stands for a database of the case's own.
    for (number, (string, variables, connects)) in [
        ("service=lab dbname=DB", no, true),
        ("postgresql:///DB?service=lab", no, true),
        ("dbname=DB", &[of("PGSERVICE", "lab")], true),
        ("service=lab2 dbname=DB", &[of("PGSERVICEFILE", &services)], true),
        ("service=lab dbname=DB", &[of("PGPASSFILE", &own)], false),
        ("service=lab dbname=DB", &[of("PGPASSFILE", &readable)], false),
        (&format!("{at} dbname=DB passfile={good}"), &[of("PGPASSFILE", &own)], true),
        (&format!("postgresql://{PASSWORD_USER}@127.0.0.1/DB"), &[of("PGPORT", port)], true),
        ("dbname=DB", &by_variables, true),
        ("application_name=x", &[&with_password[..], &[of("PGDATABASE", "DB")]].concat(), true),
        ("dbname=DB", &[&by_variables[..], &[of("PGPASSWORD", "wrong")]].concat(), false),
        (&format!("{two} dbname=DB"), no, true),
        (&format!("{two} dbname=DB target_session_attrs=read-write"), no, true),
        (&format!("{two} dbname=DB target_session_attrs=primary"), no, true),
        (&format!("{two} dbname=DB target_session_attrs=prefer-standby"), no, true),
        (&format!("{two} dbname=DB target_session_attrs=standby"), no, false),
        (&format!("{two} dbname=DB"), &[of("PGTARGETSESSIONATTRS", "read-only")], false),
        (&format!("{at} dbname=DB gssencmode=disable"), no, true),
        (&format!("{at} dbname=DB gssencmode=require"), no, false),
        ("service=nowhere dbname=DB", no, false),
        ("service=odd dbname=DB", no, false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("string{number}");
        if number > 0 {
            server.create_database(&name);
        }
        let string = string.replace("DB", &name);
        let mut variables: Vec<_> =
            variables.iter().map(|(variable, value)| (*variable, value.replace("DB", &name))).collect();
        variables.push(of("HOME", &home));
        let mut command = env.bare_command();
        command.args(["provenance", "init", "--dsn", &string]).envs(variables.iter().cloned());
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let theirs =
            psql_with(&string, "SELECT current_database() || ' ' || count(*) FROM dbversion", &variables);
        assert_eq!(
            (output.status.success(), theirs.is_ok()),
            (connects, connects),
            "{string}: {said} {theirs:?}"
        );
        if connects {
            assert_eq!(theirs.as_deref(), Ok(&*format!("{name} 1")), "{string}");
        }
        assert!(!said.contains("S3C"), "{said}");
    }
}

#[test]
fn a_database_of_another_encoding_is_refused_by_name() {
    let server = Postgres::shared();
    let utf8 = server.create_database("encoded");
    let create = "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
    server.script(&utf8, create);
    let dsn = utf8.replace("/encoded", "/ascii");
    let reason = "the database ascii has the encoding SQL_ASCII";
    let env = ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
        .set("provenance.writer.kind=postgres")
        .set(&format!("provenance.postgres.dsn={dsn}"));
    let (code, _, err) = env.base().cli(&["provenance", "init", "--dsn", &dsn]);
    assert!(code != 0 && err.contains(reason), "{code}: {err}");
    let instance = env.start();
    eventually("the cause", || {
        env.base().causes("provenance").iter().any(|cause| cause.text.contains(reason))
    });
    assert!(instance.terminate().success(), "{}", env.base().log());
}
