//! Tests of reading unit files.

use orchestrator_subsystem::OriginalFile;

use super::*;

const PROGRAM: Original =
    Original { name: "program", starts: &["program.py", "client"], file: OriginalFile::None, example: "" };

fn arguments(text: &str) -> Result<Vec<String>> {
    let unit = UnitFile::parse(text)?;
    let variables = unit.environment(&mut OriginalContext::default())?;
    let arguments = unit.arguments(&PROGRAM, &variables)?;
    Ok(arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect())
}

#[test]
fn arguments_are_read_as_by_systemd() {
    for (command, wanted) in [
        ("/opt/program.py a b", &["a", "b"][..]),
        ("-/usr/bin/python3 -u /opt/program.py \"a b\" 'c d' e\\ f", &["a b", "c d", "e f"]),
        ("/opt/bin/runner client \\\n    /etc/x.yaml", &["/etc/x.yaml"]),
        ("/opt/bin/runner client ${FILE} $MORE 100%% $$5", &["/etc/a b.yaml", "x", "y", "100%", "$5"]),
        ("/usr/bin/orchestrator as program a ''", &["a", ""]),
    ] {
        let unit = format!(
            "[Unit]\nExecStart=no\n[Service]\n# ExecStart=no\nExecStart=first\nExecStart={command}\nEnvironment=\"FILE=/etc/a b.yaml\" MORE='x y'\n"
        );
        assert_eq!(arguments(&unit).unwrap(), wanted, "{command}");
    }
}

#[test]
fn the_interpreter_is_that_of_the_command_or_of_the_script() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("runner");
    std::fs::write(&script, "#!/srv/venv/bin/python3.12 -E\nimport x\n").unwrap();
    let shell = directory.path().join("wrapper");
    std::fs::write(&shell, "#!/bin/sh\nexec x\n").unwrap();
    for (command, wanted) in [
        ("-/opt/venv/bin/python -m program.cli client a", Some("/opt/venv/bin/python")),
        ("/usr/bin/env python3 -u /opt/program.py", Some("python3")),
        ("/opt/venv/bin/runner client a", Some("/opt/venv/bin/python3")),
        ("runner client a", None),
        ("/opt/pythonic/runner client /usr/bin/python3", Some("/opt/pythonic/python3")),
    ] {
        let unit = UnitFile::parse(&format!("[Service]\nExecStart={command}\n")).unwrap();
        assert_eq!(unit.interpreter(&PROGRAM).as_deref(), wanted.map(Path::new), "{command}");
    }
    for (script, wanted) in [(&script, Some("/srv/venv/bin/python3.12")), (&shell, None)] {
        let text = format!("[Service]\nWorkingDirectory=-/srv\nExecStart={} client a\n", script.display());
        let unit = UnitFile::parse(&text).unwrap();
        assert_eq!(unit.interpreter(&PROGRAM).as_deref(), wanted.map(Path::new), "{}", script.display());
        assert_eq!(unit.directory().as_deref(), Some(Path::new("/srv")));
    }
}

#[test]
fn unusable_unit_files_are_refused() {
    for (unit, said) in [
        ("[Service]\n", "no ExecStart"),
        ("[Unit]\nExecStart=program.py\n", "no ExecStart"),
        ("[Service]\nExecStart=/bin/other a\n", "none of its words is program.py or client"),
        ("[Service]\nExecStart=program.py %h/x\n", "%h/x has a specifier"),
        ("[Service]\nExecStart=program.py \"x\n", "a quote is not closed"),
        ("[Service]\nExecStart=program.py x\nEnvironmentFile=/nowhere/env\n", "EnvironmentFile=/nowhere/env"),
    ] {
        let text = format!("{:#}", arguments(unit).unwrap_err());
        assert!(text.contains(said), "{unit}: {text}");
    }
}

#[test]
fn files_with_variables_win_and_may_be_optional() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "# comment\nA=\"from file\"\nB=2\n").unwrap();
    let text = format!(
        "[Service]\nExecStart=program.py\nEnvironment=A=1 C=3\nEnvironmentFile={}\nEnvironmentFile=-/nowhere/env\n",
        file.path().display()
    );
    let mut context = OriginalContext::default();
    let variables = UnitFile::parse(&text).unwrap().environment(&mut context).unwrap();
    let pairs: Vec<_> =
        variables.iter().map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap())).collect();
    assert_eq!(pairs, [("A", "from file"), ("B", "2"), ("C", "3")]);
    assert!(context.take_warnings()[0].contains("-/nowhere/env: it is missing"));
}
