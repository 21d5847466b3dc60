-- From version 1 of the original's tables to version 2. Rows of version 1 have no jitter and are dropped; the fetcher files still contain them
-- (CONTRACT QD02).

DELETE FROM queue;
DELETE FROM fetcher_runs;
DELETE FROM fetchers;
DELETE FROM log;
ALTER TABLE queue ADD COLUMN order_jitter integer;
DROP INDEX IF EXISTS queue_order_index;
