-- Version 1 of the schema (CONTRACT PD06 to PD08): what all flavors share.
CREATE DOMAIN sha1_git AS bytea CHECK (octet_length(VALUE) = 20);
CREATE DOMAIN unix_path AS bytea;
CREATE TYPE rel_flt AS ENUM ('filter-src', 'filter-dst', 'no-filter');
CREATE TYPE database_flavor AS ENUM (
    'with-path', 'without-path', 'with-path-denormalized', 'without-path-denormalized'
);
CREATE TABLE dbflavor (
    flavor database_flavor,
    single_row char(1) PRIMARY KEY DEFAULT 'x' CHECK (single_row = 'x')
);
CREATE FUNCTION swh_get_dbflavor() RETURNS database_flavor LANGUAGE sql STABLE AS
    $$ SELECT coalesce((SELECT flavor FROM dbflavor), 'with-path') $$;
CREATE TABLE dbversion (version int PRIMARY KEY, release timestamptz, description text);

CREATE TABLE content (id bigserial PRIMARY KEY, sha1 sha1_git UNIQUE NOT NULL, date timestamptz);
CREATE TABLE directory (id bigserial PRIMARY KEY, sha1 sha1_git UNIQUE NOT NULL, date timestamptz);
CREATE TABLE revision (
    id bigserial PRIMARY KEY, sha1 sha1_git UNIQUE NOT NULL, date timestamptz, origin bigint
);
CREATE TABLE origin (id bigserial PRIMARY KEY, sha1 sha1_git UNIQUE NOT NULL, url text UNIQUE NOT NULL);
CREATE TABLE location (id bigserial PRIMARY KEY, path unix_path UNIQUE NOT NULL);
CREATE TABLE revision_in_origin (
    revision bigint NOT NULL, origin bigint NOT NULL, PRIMARY KEY (revision, origin)
);
CREATE TABLE revision_before_revision (prev bigserial NOT NULL, next bigserial NOT NULL, PRIMARY KEY (prev, next));

CREATE FUNCTION swh_mktemp_relation_add() RETURNS void LANGUAGE sql AS
    $$ CREATE TEMP TABLE tmp_relation_add (src sha1_git, dst sha1_git, path unix_path) ON COMMIT DROP $$;
