-- The instance whose lease ended last, of those that have jobs in flight, fetchers, or a lease that ended in the last `$1` seconds.
--
-- Locks nothing.
SELECT d.*, count(*) OVER () AS instances FROM (
    SELECT i.instance, i.host, floor(extract(epoch FROM i.lease_until))::bigint AS ended,
        (SELECT count(*) FROM {schema}.fetcher AS f WHERE f.instance = i.instance AND strpos(f.name, '.') = 0) AS fetchers,
        (SELECT count(*) FROM {schema}.in_flight AS j JOIN {schema}.incarnation AS n ON n.incarnation = j.handout_id >> 32
         WHERE n.instance = i.instance AND j.is_held) AS jobs
    FROM {schema}.instance AS i
    WHERE i.lease_until < clock_timestamp() AND (i.incarnation > 0 OR i.is_locked)) AS d
WHERE d.fetchers > 0 OR d.jobs > 0 OR d.ended > extract(epoch FROM clock_timestamp()) - $1::bigint
ORDER BY d.ended DESC LIMIT 1
