"""Uses an empty Plant Store through a generated client."""

import os
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from plant_store import AuthenticatedClient
from plant_store.api.plants import (
    create_plant,
    delete_plant,
    list_plants,
    list_tags,
    patch_plant,
    put_plant,
    read_plant,
)
from plant_store.models import Error, ImportReport, NewPlant, Plant, PlantPatch, TagCount
from plant_store.types import UNSET, Unset

ID_TAKEN = 3001
NO_SUCH_PLANT = 3002
PRECONDITION_FAILED = 3003

LARGE_IDS = [-(2**63), 2**53 + 1, 2**63 - 1]


def all_plants(client: AuthenticatedClient, limit: int) -> Iterator[list[NewPlant]]:
    """Every plant, page by page."""
    after: int | Unset = UNSET
    while True:
        page = list_plants.sync_detailed(client=client, limit=limit, after=after)
        assert isinstance(page.parsed, list), page.parsed
        yield page.parsed
        following = after_of_next_page(page.headers)
        if following is None:
            return
        after = following


def after_of_next_page(headers: Mapping[str, str]) -> int | None:
    """The `after` of the next page, from the header `Link`; None on the last page."""
    link = headers.get("Link")
    if link is None:
        return None
    target = link[link.index("<") + 1 : link.index(">")]
    after = parse_qs(urlsplit(target).query).get("after")  # The last page has a link back alone.
    return int(after[0]) if after else None


def create_and_read(client: AuthenticatedClient) -> None:
    created = create_plant.sync_detailed(
        client=client, body=NewPlant(id=7, name="Rosa canina", tag="Rosaceae")
    )
    assert created.status_code == HTTPStatus.OK
    assert created.parsed == Plant(name="Rosa canina", tag="Rosaceae")
    assert created.headers["Location"] == "/plants/7"

    assert create_plant.sync(client=client, body=NewPlant(id=8, name="Salix alba")) == Plant(
        name="Salix alba"
    )
    untagged = read_plant.sync(8, client=client)
    assert untagged == NewPlant(id=8, name="Salix alba")
    assert isinstance(untagged, NewPlant) and isinstance(untagged.tag, Unset)


def count_tags(client: AuthenticatedClient) -> None:
    assert list_tags.sync(client=client) == [TagCount(tag="Rosaceae", plants=1)]
    assert list_tags.sync(client=client, prefix="Sal", limit=1) == []

    tagged = list_plants.sync_detailed(client=client, tag="Rosaceae")
    assert tagged.parsed == [NewPlant(id=7, name="Rosa canina", tag="Rosaceae")]
    assert tagged.headers["X-Total-Count"] == "1"


def fail(client: AuthenticatedClient) -> None:
    taken = create_plant.sync_detailed(client=client, body=NewPlant(id=7, name="Rosa gallica"))
    assert taken.status_code == HTTPStatus.BAD_REQUEST
    assert isinstance(taken.parsed, Error), taken.parsed
    assert taken.parsed.error == ID_TAKEN
    assert "7" in taken.parsed.message

    absent = read_plant.sync(9, client=client)
    assert isinstance(absent, Error), absent
    assert absent.error == NO_SUCH_PLANT


def change_what_has_not_changed_since(client: AuthenticatedClient) -> None:
    old = read_plant.sync_detailed(7, client=client).headers["ETag"]
    replaced = put_plant.sync_detailed(
        7, client=client, body=Plant(name="Rosa gallica", tag="Rosaceae"), if_match=old
    )
    assert replaced.status_code == HTTPStatus.OK
    assert replaced.parsed == Plant(name="Rosa gallica", tag="Rosaceae")
    assert replaced.headers["ETag"] != old

    refused = put_plant.sync_detailed(
        7, client=client, body=Plant(name="Rosa rugosa"), if_match=old
    )
    assert refused.status_code == HTTPStatus.PRECONDITION_FAILED
    assert isinstance(refused.parsed, Error), refused.parsed
    assert refused.parsed.error == PRECONDITION_FAILED
    assert read_plant.sync(7, client=client) == NewPlant(id=7, name="Rosa gallica", tag="Rosaceae")

    unchanged = read_plant.sync_detailed(7, client=client, if_none_match=replaced.headers["ETag"])
    assert unchanged.status_code == HTTPStatus.NOT_MODIFIED
    assert unchanged.parsed is None

    new = put_plant.sync_detailed(9, client=client, body=Plant(name="Betula"), if_none_match="*")
    assert new.status_code == HTTPStatus.CREATED
    assert new.parsed == Plant(name="Betula")


def patch(client: AuthenticatedClient) -> None:
    assert patch_plant.sync(7, client=client, body=PlantPatch(name="Rosa")) == Plant(
        name="Rosa", tag="Rosaceae"
    )
    assert patch_plant.sync(7, client=client, body=PlantPatch(tag=None)) == Plant(name="Rosa")


def delete(client: AuthenticatedClient) -> None:
    assert delete_plant.sync_detailed(9, client=client).status_code == HTTPStatus.NO_CONTENT
    again = delete_plant.sync(9, client=client)
    assert isinstance(again, Error), again
    assert again.error == NO_SUCH_PLANT


def keep_large_ids(client: AuthenticatedClient) -> None:
    for id in LARGE_IDS:
        created = create_plant.sync_detailed(client=client, body=NewPlant(id=id, name="Rosa"))
        assert created.headers["Location"] == f"/plants/{id}"
        assert read_plant.sync(id, client=client) == NewPlant(id=id, name="Rosa")


def page(client: AuthenticatedClient) -> None:
    pages = list(all_plants(client, limit=2))
    assert len(pages) == 3
    ids = [plant.id for page in pages for plant in page]
    assert ids == sorted([7, 8, *LARGE_IDS])

    rest = list_plants.sync(client=client, after=2**53 + 1)
    assert rest == [NewPlant(id=2**63 - 1, name="Rosa")]


def import_and_export(client: AuthenticatedClient) -> None:
    # Both may be of any length, so the HTTP client of the generated client streams them.
    http = client.get_httpx_client()

    rows = (f"{id},Rosa {id},\n".encode() for id in range(2**53 + 1, 2**53 + 4))
    response = http.post(
        "/plants/import",
        params={"on_conflict": "skip"},
        headers={"Content-Type": "text/csv"},
        content=(piece for pieces in ([b"id,name,tag\n"], rows) for piece in pieces),
    )
    assert response.status_code == HTTPStatus.OK, response.text
    report = ImportReport.from_dict(response.json())
    assert report == ImportReport(created=2, errors=[], failed=0, replaced=0, skipped=1)

    with http.stream("GET", "/plants/export", headers={"Accept": "text/csv"}) as export:
        assert export.status_code == HTTPStatus.OK
        lines = list(export.iter_lines())
    assert lines[0] == "id,name,tag"
    assert lines[-2] == f"{2**53 + 3},Rosa {2**53 + 3},"
    assert len(lines) == 1 + 5 + 2


def be_refused(url: str) -> None:
    stranger = AuthenticatedClient(base_url=url, token="unknown")
    refused = read_plant.sync_detailed(7, client=stranger)
    assert refused.status_code == HTTPStatus.UNAUTHORIZED
    assert isinstance(refused.parsed, Error), refused.parsed


def main() -> None:
    url = os.environ["PLANTS_URL"]
    # An undocumented answer raises an exception.
    with AuthenticatedClient(
        base_url=url, token=os.environ["PLANTS_TOKEN"], raise_on_unexpected_status=True
    ) as client:
        create_and_read(client)
        count_tags(client)
        fail(client)
        change_what_has_not_changed_since(client)
        patch(client)
        delete(client)
        keep_large_ids(client)
        page(client)
        import_and_export(client)
    be_refused(url)


if __name__ == "__main__":
    main()
