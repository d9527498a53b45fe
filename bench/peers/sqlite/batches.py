"""Reads plants from NDJSON, in one batch per transaction."""

import itertools
import json


def batches(path, plants_in_a_batch):
    with open(path, encoding="utf-8") as lines:
        plants = map(json.loads, lines)
        while batch := list(itertools.islice(plants, plants_in_a_batch)):
            yield batch
