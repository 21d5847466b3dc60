-- Schemas with the functions of programs: one for each text of the functions, so that programs of several versions run beside each other.
--
-- Locks the rows of `function_schema` that it deletes, and skips those that others have locked.

-- Drops the functions of programs of which no instance is registered, a day after the last start of one. An instance that comes back creates
-- its functions again, so a role that could not does nothing. A schema that has more than functions, or another owner than the tables, stays.
CREATE OR REPLACE FUNCTION drop_former_functions() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    former record;
BEGIN
    IF NOT has_database_privilege(current_database(), 'CREATE') THEN
        RETURN;
    END IF;
    FOR former IN
        SELECT f.name FROM function_schema AS f JOIN pg_namespace AS n ON n.nspname = f.name
        WHERE f.name <> current_schema() AND f.name ~ '_f[0-9a-f]{8}$' AND left(f.name, -8) = left(current_schema(), -8)
            AND f.used < clock_timestamp() - interval '1 day'
            AND n.nspowner = (SELECT c.relowner FROM pg_class AS c WHERE c.oid = 'property'::regclass)
            AND NOT EXISTS (SELECT 1 FROM pg_class AS c WHERE c.relnamespace = n.oid)
            AND NOT EXISTS (SELECT 1 FROM program AS p JOIN instance AS i USING (instance, incarnation) WHERE p.functions = f.name)
        FOR UPDATE OF f SKIP LOCKED
    LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', former.name);
        DELETE FROM function_schema AS f WHERE f.name = former.name;
    END LOOP;
END
$$;
