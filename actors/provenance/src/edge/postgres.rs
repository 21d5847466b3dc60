//! A store in PostgreSQL: schema version 1 of the original, in its four flavors (contract §8.2).
