-- Limits.
--
-- Locks all rows of `limit_rule`, then rows of `in_flight` whose class changes, then all rows of `slot`; `reclass` those that `make_ready` and
-- `drop_ready` lock, `most` paths at a time.

-- Replaces the limits, and counts the jobs in flight against them.
CREATE OR REPLACE FUNCTION set_limits(attrs text[], fetchers text[], numbers integer[]) RETURNS void LANGUAGE sql AS $$
    DELETE FROM limit_rule;
    INSERT INTO limit_rule (class, attr_like, fetcher_like, in_flight)
    SELECT t.n, t.attr_like, t.fetcher_like, t.in_flight
    FROM unnest(attrs, fetchers, numbers) WITH ORDINALITY AS t (attr_like, fetcher_like, in_flight, n);
    UPDATE in_flight AS f SET class = c.class
    FROM in_flight AS o JOIN fetcher AS n USING (fetcher_id), LATERAL class_of(o.attr_path, n.name) AS c
    WHERE f.attr_path = o.attr_path AND f.is_held AND f.class <> c.class;
    UPDATE limit_rule AS l SET excess = greatest(used.slots - l.in_flight, 0)
    FROM (SELECT f.class, count(*) AS slots FROM in_flight AS f GROUP BY f.class) AS used
    WHERE used.class = l.class;
    DELETE FROM slot;
    SELECT set_config('orchestrator.freed', '', true);
    INSERT INTO slot (class)
    SELECT l.class FROM limit_rule AS l, LATERAL generate_series(
        1, l.in_flight - (SELECT count(*) FROM in_flight AS f WHERE f.class = l.class));
$$;

-- Computes the classes of the next `most` waiting paths behind `after` again. Returns the last of them.
CREATE OR REPLACE FUNCTION reclass(after text, most integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    paths text[];
BEGIN
    SELECT array_agg(p.attr_path) INTO paths FROM (
        SELECT DISTINCT r.attr_path FROM ready AS r WHERE r.attr_path > after ORDER BY r.attr_path LIMIT most) AS p;
    IF paths IS NOT NULL THEN
        PERFORM make_ready(paths);
        PERFORM drop_ready(paths);
    END IF;
    RETURN paths[cardinality(paths)];
END
$$;
