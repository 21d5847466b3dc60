-- Numbers of rows and of jobs.
--
-- Locks nothing. Reads all rows.
SELECT (SELECT count(*) FROM listing), count(*), count(log.attr_path), (SELECT count(*) FROM log),
    (SELECT count(*) FROM log WHERE finished IS NULL)
FROM {newest} AS g LEFT JOIN log ON log.attr_path = g.attr_path AND log.finished IS NULL
WHERE NOT g.is_dequeued
