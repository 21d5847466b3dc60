-- Patterns of operators' questions.
--
-- Locks nothing. The planner puts it into the statement that calls it, and computes the pattern of LIKE once.

-- Matches a path with a pattern in which `*` and `?` stand for others. Without a pattern, all paths match.
CREATE OR REPLACE FUNCTION path_matches(pattern text, path text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT pattern IS NULL OR path LIKE translate(regexp_replace(pattern, '([\\%_])', '\\\1', 'g'), '*?', '%_')
$$;
