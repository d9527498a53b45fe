\set number random(1, :stored)
\set id (:number * 679535556991) & 9007199254740991
SELECT id, revision, name, tag FROM stored.plants WHERE id = :id;
