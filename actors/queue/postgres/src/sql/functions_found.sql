-- Number of the functions in the schema `$1`, and whether it belongs to the owner of the tables.
--
-- Locks nothing.
SELECT (SELECT count(*) FROM pg_proc AS p WHERE p.pronamespace = n.oid),
    n.nspowner = (SELECT c.relowner FROM pg_class AS c WHERE c.oid = 'property'::regclass)
FROM pg_namespace AS n WHERE n.nspname = $1
