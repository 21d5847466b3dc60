-- Numbers of rows and of jobs. Scans the log.
SELECT (SELECT count(*) FROM listed), w.ready, w.held, (SELECT count(*) FROM log), (SELECT count(*) FROM log WHERE finished IS NULL)
FROM waiting AS w
