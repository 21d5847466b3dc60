-- Makes what follows from rows that were copied. Nobody else uses the schema.

-- Jobs in flight whose records are gone keep their hold.
INSERT INTO in_flight (attr_path, handout_id, started, fetcher_id, runs, class, had_log, is_held, delivered)
    SELECT l.attr_path, row_number() OVER (ORDER BY l.started, l.attr_path), l.started, coalesce(f.fetcher_id, 0),
        '{{}}', 0, false, true, 2
    FROM log AS l
        LEFT JOIN LATERAL (
            SELECT a.fetcher FROM attempt AS a WHERE a.attr_path = l.attr_path AND a.started = l.started
            ORDER BY a.handout_id DESC LIMIT 1) AS a ON true
        LEFT JOIN fetcher AS f ON f.name = a.fetcher
    WHERE l.finished IS NULL AND NOT EXISTS (SELECT 1 FROM in_flight AS i WHERE i.attr_path = l.attr_path);
-- Undelivered hand-outs are undone by the next start of the instance, or by another one.
INSERT INTO incarnation (incarnation, instance) SELECT DISTINCT h.handout_id >> 32, '{instance}'
    FROM (SELECT handout_id FROM in_flight WHERE handout_id >= {first}
          UNION ALL SELECT handout_id FROM bump WHERE handout_id IS NOT NULL) AS h;
UPDATE instance SET incarnation = {incarnation} WHERE instance = '{instance}' AND {incarnation} > 0;
SELECT setval('incarnation_number', greatest({incarnation}, s.last_value)) FROM incarnation_number AS s;
SELECT setval('failure_number', greatest((SELECT max(number) FROM failure), s.last_value)) FROM failure_number AS s;
SELECT setval(pg_get_serial_sequence('fetcher', 'fetcher_id'), greatest({fetcher}, (SELECT max(fetcher_id) FROM fetcher)));
SELECT setval(pg_get_serial_sequence('bump', 'number'), greatest(1, (SELECT max(number) FROM bump)));
