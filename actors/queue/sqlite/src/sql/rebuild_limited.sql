-- Records all jobs in flight again that count against limits. The fetcher of a job is that of its attempt. Scans the attempts and the log.
DELETE FROM orchestrator_limited;
INSERT INTO orchestrator_limited (attr_path, fetcher)
SELECT attr_path, fetcher FROM (
    SELECT a.attr_path, a.fetcher, max(a.handout_id)
    FROM orchestrator_attempt AS a CROSS JOIN log
        ON log.attr_path = a.attr_path AND log.started = a.started AND log.finished IS NULL
    GROUP BY a.attr_path)
WHERE orchestrator_class(attr_path, fetcher) > 0;
INSERT INTO orchestrator_limited (attr_path, fetcher)
SELECT attr_path, NULL FROM log WHERE finished IS NULL AND orchestrator_class(attr_path, NULL) > 0
ON CONFLICT DO NOTHING
