-- Schemas with the functions of programs: one for each text of the functions, so that programs of several versions run beside each other.
--
-- Locks the rows of `function_schema` that it deletes, and skips those that others have locked.

-- Drops the functions of programs of which no instance is registered, a day after the last start of one. An instance that comes back creates
-- its functions again.
CREATE OR REPLACE FUNCTION drop_former_functions() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    former record;
BEGIN
    FOR former IN
        SELECT f.name FROM function_schema AS f
        WHERE f.name <> current_schema() AND left(f.name, -8) = left(current_schema(), -8) AND f.used < clock_timestamp() - interval '1 day'
            AND NOT EXISTS (SELECT 1 FROM incarnation AS n JOIN instance AS i USING (incarnation) WHERE n.functions = f.name)
        FOR UPDATE SKIP LOCKED
    LOOP
        EXECUTE format('DROP SCHEMA IF EXISTS %I CASCADE', former.name);
        DELETE FROM function_schema AS f WHERE f.name = former.name;
    END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
    -- An instance with the role that owns them drops them.
    NULL;
END
$$;

-- Roles that may use the schema of the tables may use that of the functions.
DO $$
DECLARE
    other record;
BEGIN
    FOR other IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS name
        FROM pg_namespace AS n, aclexplode(n.nspacl) AS a
        WHERE n.nspname = '$schema' AND a.privilege_type = 'USAGE' AND a.grantee <> n.nspowner
    LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %s', current_schema(), other.name);
    END LOOP;
END
$$;
