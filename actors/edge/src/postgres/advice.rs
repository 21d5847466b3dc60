//! Advice for operators by SQLSTATE.

use tokio_postgres::{Config, error::SqlState};

/// Role and database of a session, as statements name them.
#[derive(Debug, Clone)]
pub struct Login {
    /// The role.
    pub role: String,
    /// The database.
    pub database: String,
}

impl Login {
    /// A database without a name is that of the role.
    pub(super) fn of(config: &Config) -> Self {
        let role = config.get_user().unwrap_or_default();
        Self { database: identifier(config.get_dbname().unwrap_or(role)), role: identifier(role) }
    }

    /// Statement or setting that helps; None if `code` tells none.
    pub(super) fn advice(&self, code: &SqlState) -> Option<String> {
        let Self { role, database } = self;
        Some(match code.code() {
            "25006" => {
                "name a server that takes writes in the address, or add target_session_attrs=read-write"
                    .to_owned()
            }
            "28000" => format!(
                "correct the role in the address, or CREATE ROLE {role} LOGIN; if it exists, permit it in the file that SHOW hba_file names"
            ),
            "28P01" => {
                format!("correct the password in the address, or set it: ALTER ROLE {role} PASSWORD '..'")
            }
            "3D000" => {
                format!("CREATE DATABASE {database} OWNER {role}, or correct the database in the address")
            }
            "3F000" => {
                format!("CREATE SCHEMA AUTHORIZATION {role}, or GRANT USAGE, CREATE ON SCHEMA .. TO {role}")
            }
            "42501" => format!(
                "as the owner or a superuser: GRANT .. TO {role}, with the privilege that the reason names"
            ),
            "53100" => "df -h on its host: free space for the data directory and tablespaces".to_owned(),
            "53300" => format!(
                "SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2; end some sessions, or raise max_connections \
                 or the limit: ALTER ROLE {role} CONNECTION LIMIT -1"
            ),
            _ => return None,
        })
    }
}

/// Writes a name in a statement.
fn identifier(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.bytes().all(is_plain) && !name.starts_with(|first: char| first.is_ascii_digit()) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_a_statement_with_role_and_database() {
        let login = Login::of(&"user=Me dbname=queue".parse().expect("an address"));
        for (code, statement) in [
            ("25006", "target_session_attrs=read-write"),
            ("28000", "CREATE ROLE \"Me\" LOGIN"),
            ("28P01", "ALTER ROLE \"Me\" PASSWORD"),
            ("3D000", "CREATE DATABASE queue OWNER \"Me\""),
            ("3F000", "TO \"Me\""),
            ("42501", "GRANT .. TO \"Me\""),
            ("53100", "df -h"),
            ("53300", "FROM pg_stat_activity"),
        ] {
            let advice = login.advice(&SqlState::from_code(code)).expect(code);
            assert!(advice.contains(statement), "{code}: {advice}");
        }
        assert_eq!(login.advice(&SqlState::SYNTAX_ERROR), None);
    }
}
