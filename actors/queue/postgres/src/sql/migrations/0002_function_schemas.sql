-- Records of migrations, and of the schemas that have the functions of programs.
--
-- Only adds tables, so that no statement of another program waits. Programs from before this migration have their functions in the schema of
-- the tables, and no row in `program`.

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
-- Functions that the process with the place of an instance uses.
CREATE TABLE program (
    instance text COLLATE "C" PRIMARY KEY,
    incarnation bigint NOT NULL,
    functions text COLLATE "C" NOT NULL
);
