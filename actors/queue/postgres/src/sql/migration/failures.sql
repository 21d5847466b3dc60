-- Failures, as if those without a number had got one.
(SELECT number, attr_path, started, finished, exit_code FROM failure WHERE number IS NOT NULL
UNION ALL
SELECT s.last_value + row_number() OVER (ORDER BY f.entered), f.attr_path, f.started, f.finished, f.exit_code
FROM failure AS f, failure_number AS s WHERE f.number IS NULL) AS f
