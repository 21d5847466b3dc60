//! Identifiers and dates in PostgreSQL's binary format.

use std::error::Error;

use bytes::BytesMut;
use orchestrator_edge::postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::row::{Date, Sha1Git};

/// Microseconds from 1970, the epoch of [`Date`], to 2000, the epoch of PostgreSQL.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

type Failure = Box<dyn Error + Sync + Send>;

impl ToSql for Sha1Git {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::BYTEA
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Sha1Git {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        Ok(Self(raw.try_into().map_err(|_| "an identifier in the database has not 20 bytes")?))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::BYTEA
    }
}

impl ToSql for Date {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        // Years 1 to 9999 neither overflow nor equal the values of infinity.
        out.extend_from_slice(&(self.micros() - EPOCH_MICROS).to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Date {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        let micros = i64::from_be_bytes(raw.try_into()?).checked_add(EPOCH_MICROS);
        micros
            .and_then(Self::from_micros)
            .ok_or_else(|| "a date in the database is not within years 1 to 9999".into())
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TIMESTAMPTZ
    }
}
