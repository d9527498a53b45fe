"""The rules of the API that no schema can express."""

import schemathesis
from hypothesis import strategies as st
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.openapi.checks import RejectedPositiveData

# No schema can express which ids are taken, the revisions of a plant, which cursors were given out, or which parameters
# exclude each other.
WRONG_PARAMETER = (400, 1006)
ID_TAKEN = (400, 3001)
PRECONDITION_FAILED = (412, 3003)
EVENTS_GONE = (410, 3004)
VERSION_GONE = (410, 3005)
EXCUSED = {
    "createPlant": [ID_TAKEN],
    "listEvents": [EVENTS_GONE],
    "listPlantHistory": [VERSION_GONE],
    "listPlants": [WRONG_PARAMETER],
    "readPlant": [PRECONDITION_FAILED, VERSION_GONE],
    "putPlant": [PRECONDITION_FAILED],
    "patchPlant": [PRECONDITION_FAILED],
    "deletePlant": [PRECONDITION_FAILED],
}


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Drops rejections of valid data for one of these reasons, and accepted imports and batches of invalid data."""
    operation_id = case.operation.definition.raw["operationId"]
    if isinstance(failure, AcceptedNegativeData):
        # An import with invalid rows succeeds: its report lists them. In a batch, a DELETE ignores its body.
        is_report = operation_id == "importPlants" and isinstance(case.body, list)
        return not is_report and operation_id != "batchPlants"
    if not isinstance(failure, RejectedPositiveData) or not response.content:
        return True
    error = response.json()
    # A request of a batch fails for any reason of its own.
    is_of_batch = operation_id == "batchPlants" and error["message"].startswith("requests[")
    excused = EXCUSED.get(operation_id, [])
    return not is_of_batch and (response.status_code, error["error"]) not in excused


# The default header values of Schemathesis consist of letters and digits, none of which match these patterns.
schemathesis.openapi.format("sf-string", st.from_regex(r'"[ !#-\[\]-~]{1,255}"', fullmatch=True))
schemathesis.openapi.format(
    "cursor", st.from_regex(r"(0|[1-9][0-9]{0,18})-(0|[1-9a-f][0-9a-f]{0,15})", fullmatch=True)
)
schemathesis.openapi.format(
    "entity-tags", st.one_of(st.just("*"), st.integers(0, 2**64 - 1).map(lambda revision: f'"{revision}"'))
)


# An import with invalid rows succeeds, so a body is valid whatever follows the CSV header.
ROW = st.one_of(st.just('{"id":7,"name":"Rosa"}'), st.just("7,Rosa,"), st.text())
schemathesis.openapi.format("binary", st.lists(ROW).map(lambda rows: "\n".join(["id,name,tag", *rows])))


@schemathesis.serializer("application/x-ndjson", "text/csv")
def rows(context, value):
    """Rows are text."""
    return value.encode()


@schemathesis.hook.apply_to(operation_id="importPlants")
def filter_case(context, case):
    """Drops bodies that are not text, which cannot be sent as rows."""
    return isinstance(case.body, str) or case.media_type == "application/json"


@schemathesis.hook
def filter_body(context, body):
    """Drops integers such as `7.0`, which JSON Schema cannot exclude."""
    id = body.get("id") if isinstance(body, dict) else None
    return not (isinstance(id, float) and id.is_integer())


@schemathesis.hook.apply_to(operation_id="listEvents")
def filter_case(context, case):
    """Drops polls for the next event, which wait longer than Schemathesis does: no event comes."""
    query, headers = case.query or {}, case.headers or {}
    return not (query.get("after") == "now" and not headers.get("Last-Event-ID") and query.get("wait", 0) != 0)
