-- Fetchers that a SQLite file can have: of several with one name, which belong to other subsystems, those with jobs.
fetcher AS f WHERE NOT EXISTS (SELECT 1 FROM fetcher AS o WHERE o.name = f.name AND o.fetcher_id <> f.fetcher_id)
OR EXISTS (SELECT 1 FROM listing AS l WHERE l.fetcher_id + 0 = f.fetcher_id)
OR EXISTS (SELECT 1 FROM offer AS o WHERE o.fetcher_id = f.fetcher_id)
OR EXISTS (SELECT 1 FROM in_flight AS i WHERE i.fetcher_id = f.fetcher_id)
