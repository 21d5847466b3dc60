//! Results of commands without an instance: text on standard output, errors on standard error, and exit
//! codes.

use std::io::Write;

use anyhow::Result;
use orchestrator_subsystem::{CommandError, output::escape_lines, redaction::redact};
use orchestrator_supervise::StandardStream;

use crate::{
    cli::{colour, exit_code::ExitCode},
    config::report::InvalidConfig,
    state_owner,
};

/// Prints a result to standard output, or the error to standard error.
pub(crate) fn print(text: Result<String>) -> ExitCode {
    match text {
        Ok(text) => write_out(escape_lines(&text).as_bytes()),
        Err(error) => report_error(&error),
    }
}

/// Writes to standard output, or an error to standard error.
pub(crate) fn write_out(bytes: &[u8]) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) else { return ExitCode::Ok };
    let error = CommandError::Output(error);
    let code = ExitCode::of(&error);
    if code != ExitCode::Ok {
        report_error(&error.into());
    }
    code
}

/// Prints a result, or an error. Errors other than those of the configuration have the code of failures.
pub(crate) fn print_or_fail(text: Result<String>) -> ExitCode {
    // Another process has reported the error.
    if let Some(state_owner::Failed(status)) = text.as_ref().err().and_then(|error| error.downcast_ref()) {
        let is_config = status.code() == Some(ExitCode::Config as i32);
        return if is_config { ExitCode::Config } else { ExitCode::Failure };
    }
    let is_failure = text.as_ref().is_err_and(|error| !error.is::<InvalidConfig>());
    let code = print(text);
    if is_failure { ExitCode::Failure } else { code }
}

/// Prints the error, if there is one.
pub(crate) fn exit_code(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| report_error(&error))
}

/// Prints an error that prevents the start, and returns the exit code of configuration errors.
pub(crate) fn report_error(error: &anyhow::Error) -> ExitCode {
    StandardStream::Error.print(colour::error_line(&redact(&format!("{error:#}"))));
    ExitCode::Config
}
