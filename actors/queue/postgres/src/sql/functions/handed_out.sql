-- Rows of a hand-out.
--
-- Locks nothing. Becomes part of the statement that calls it, and reads a range of the unique index of numbers.

-- Rows of these hand-outs. Read by themselves (OFFSET 0): joined with another table by path, a plan that is made while `in_flight` has one row
-- would read all of it.
CREATE OR REPLACE FUNCTION handed_out(first_id bigint, last_id bigint) RETURNS SETOF in_flight LANGUAGE sql STABLE AS $$
    SELECT * FROM in_flight WHERE handout_id BETWEEN first_id AND last_id OFFSET 0
$$;
