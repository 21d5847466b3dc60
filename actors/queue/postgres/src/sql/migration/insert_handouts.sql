-- Adds hand-outs. Their classes are computed when limits are set.
INSERT INTO in_flight ({names}, class, is_held)
SELECT handout_id, attr_path, fetcher_id, started, string_to_array(runs, ' ')::bigint[], had_log <> 0, previous_started,
    previous_finished, previous_exit_code, delivered::smallint, 0, delivered >= 0
FROM {from}
