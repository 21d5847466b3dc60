-- Owner of the schema `$1`, of which this role is no member, the statement that permits the role to use it, and the role.
--
-- Locks nothing.
SELECT n.nspowner::regrole::text, CASE WHEN EXISTS (
    SELECT 1 FROM pg_class AS c WHERE c.relnamespace = n.oid AND c.relname = 'property')
THEN format('GRANT %s TO %I', n.nspowner::regrole, current_user)
ELSE format('GRANT USAGE, CREATE ON SCHEMA %I TO %I', n.nspname, current_user) END, current_user::text
FROM pg_namespace AS n WHERE n.nspname = $1 AND NOT pg_has_role(n.nspowner, 'USAGE')
