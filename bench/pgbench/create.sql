-- Inserts one plant of about as many bytes as those of the load generator, with one of 70 tags. The factor and the
-- mask are those of xtask/src/bench/plants.rs.
\set number :number + :clients
\set own :number + :client_id
\set id (:own * 679535556991) & 9007199254740991
INSERT INTO created.plants (id, revision, name, folded_name, tag, idempotency)
VALUES (
    CAST(:id AS bigint),
    CAST(:own AS bigint),
    'Quercus ' || CAST(:id AS bigint) % 10000000,
    'quercus ' || CAST(:id AS bigint) % 10000000,
    'Plantaceae' || CAST(:id AS bigint) % 70,
    NULL
);
