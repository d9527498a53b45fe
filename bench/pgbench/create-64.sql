-- create.sql with 64 plants in one statement.
\set number :number + :clients * 64
\set own :number + :client_id * 64
INSERT INTO created.plants (id, revision, name, folded_name, tag, idempotency)
SELECT id, number, 'Quercus ' || id % 10000000, 'quercus ' || id % 10000000, 'Plantaceae' || id % 70, NULL
FROM (
    SELECT number, (number * 679535556991) & 9007199254740991 AS id
    FROM generate_series(CAST(:own AS bigint), CAST(:own AS bigint) + 63) AS new (number)
) AS plants;
