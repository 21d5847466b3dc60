-- Records of migrations, and of the schemas that have the functions of programs.
--
-- Locks `incarnation` (ACCESS EXCLUSIVE) for a moment. Programs from before this migration have their functions in the schema of the tables, and
-- go on: they add no value to `functions`.

CREATE TABLE schema_migration (
    number integer PRIMARY KEY,
    applied timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO schema_migration (number) VALUES (1);
-- `used` is the time of the last start of an instance with these functions.
CREATE TABLE function_schema (
    name text COLLATE "C" PRIMARY KEY,
    used timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE incarnation ADD COLUMN functions text COLLATE "C";
