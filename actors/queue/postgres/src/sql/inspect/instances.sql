-- Instances with the numbers of their fetchers and jobs in flight.
--
-- Locks nothing.
SELECT i.instance, i.lease_until > clock_timestamp(), floor(extract(epoch FROM i.lease_until))::bigint, i.host, i.socket,
    (SELECT count(*) FROM fetcher AS f WHERE f.instance = i.instance AND strpos(f.name, '.') = 0),
    (SELECT count(*) FROM in_flight AS j JOIN incarnation AS n ON n.incarnation = j.handout_id >> 32
     WHERE n.instance = i.instance AND j.is_held)
FROM instance AS i ORDER BY i.instance
