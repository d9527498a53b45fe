// Uses an empty Plant Store through generated types.
import assert from "node:assert/strict";
import createClient, { type Client } from "openapi-fetch";
import { createExactClient, exact } from "./exact-client.js";
import type { components as exactComponents, paths as exactPaths } from "./plant-store-exact.js";
import type { paths } from "./plant-store.js";

type NewPlant = exactComponents["schemas"]["NewPlant"];
type ExactClient = Client<exactPaths>;

const ID_TAKEN = 3001;
const NO_SUCH_PLANT = 3002;
const PRECONDITION_FAILED = 3003;

const BEYOND_NUMBERS = 9007199254740993n;
const LARGEST = 9223372036854775807n;
const SMALLEST = -9223372036854775808n;

/** Uses the generated types as they are, with ids that numbers can hold. */
async function useNumbers(baseUrl: string, headers: Record<string, string>): Promise<void> {
  const client = createClient<paths>({ baseUrl, headers });
  const created = await client.POST("/plants", {
    body: { id: 7, name: "Rosa canina", tag: "Rosaceae" },
  });
  assert.equal(created.response.status, 200);
  assert.deepEqual(created.data, { name: "Rosa canina", tag: "Rosaceae" });
  assert.equal(created.response.headers.get("Location"), "/plants/7");

  const { data, error } = await client.GET("/plants/{id}", { params: { path: { id: 7 } } });
  assert(data, error?.message);
  const next: number = data.id + 1;
  assert.equal(next, 8);
  assert.equal(data.tag?.toUpperCase(), "ROSACEAE");

  const untagged = await client.POST("/plants", { body: { id: next, name: "Salix alba" } });
  assert.deepEqual(untagged.data, { name: "Salix alba" });

  const { data: plants } = await client.GET("/plants", { params: { query: { limit: 2 } } });
  assert.deepEqual(plants?.map((plant) => plant.id), [7, 8]);

  const { data: tags } = await client.GET("/tags", { params: { query: { prefix: "Ros" } } });
  assert.deepEqual(tags, [{ tag: "Rosaceae", plants: 1 }]);
}

async function fail(client: ExactClient): Promise<void> {
  const taken = await client.POST("/plants", { body: { id: 7, name: "Rosa gallica" } });
  assert.equal(taken.response.status, 400);
  assert.equal(taken.error?.error, ID_TAKEN);
  assert.match(taken.error.message, /7/);

  const absent = await client.GET("/plants/{id}", { params: { path: { id: 9 } } });
  assert.equal(absent.response.status, 404);
  assert.equal(absent.error?.error, NO_SUCH_PLANT);
}

async function changeWhatHasNotChangedSince(client: ExactClient): Promise<void> {
  const path = { id: 7 };
  const { response } = await client.GET("/plants/{id}", { params: { path } });
  const old = response.headers.get("ETag");
  assert(old);
  const params = { path, header: { "If-Match": old } };
  const body = { name: "Rosa gallica", tag: "Rosaceae" };
  const replaced = await client.PUT("/plants/{id}", { params, body });
  assert.equal(replaced.response.status, 200);
  assert.deepEqual(replaced.data, body);
  const current = replaced.response.headers.get("ETag");
  assert(current && current !== old);

  const refused = await client.PUT("/plants/{id}", { params, body: { name: "Rosa rugosa" } });
  assert.equal(refused.response.status, 412);
  assert.equal(refused.error?.error, PRECONDITION_FAILED);
  const { data } = await client.GET("/plants/{id}", { params: { path } });
  assert.deepEqual(data, { id: 7, ...body });

  const unchanged = await client.GET("/plants/{id}", {
    params: { path, header: { "If-None-Match": current } },
  });
  assert.equal(unchanged.response.status, 304);
  assert.equal(unchanged.data, undefined);

  const created = await client.PUT("/plants/{id}", {
    params: { path: { id: 9 }, header: { "If-None-Match": "*" } },
    body: { name: "Betula" },
  });
  assert.equal(created.response.status, 201);
  assert.deepEqual(created.data, { name: "Betula" });
}

async function patch(client: ExactClient): Promise<void> {
  const params = { path: { id: 7 } };
  const renamed = await client.PATCH("/plants/{id}", { params, body: { name: "Rosa" } });
  assert.deepEqual(renamed.data, { name: "Rosa", tag: "Rosaceae" });
  const untagged = await client.PATCH("/plants/{id}", { params, body: { tag: null } });
  assert.deepEqual(untagged.data, { name: "Rosa" });
}

async function remove(client: ExactClient): Promise<void> {
  const params = { path: { id: 9 } };
  const removed = await client.DELETE("/plants/{id}", { params });
  assert.equal(removed.response.status, 204);
  const again = await client.DELETE("/plants/{id}", { params });
  assert.equal(again.error?.error, NO_SUCH_PLANT);
}

async function keepLargeIds(client: ExactClient): Promise<void> {
  for (const id of [BEYOND_NUMBERS, LARGEST, SMALLEST]) {
    const created = await client.POST("/plants", { body: { id, name: "Rosa" } });
    assert.equal(created.response.headers.get("Location"), `/plants/${id}`);
    const { data } = await client.GET("/plants/{id}", { params: { path: { id } } });
    assert.deepEqual(data, { id, name: "Rosa" });
  }
}

/** Every plant, page by page. */
async function* allPlants(client: ExactClient, limit: number): AsyncGenerator<NewPlant[]> {
  let after: number | bigint | undefined;
  do {
    const { data, error, response } = await client.GET("/plants", {
      params: { query: { limit, after } },
    });
    assert(data, error?.message);
    yield data;
    after = afterOfNextPage(response);
  } while (after !== undefined);
}

/** Where the next page begins, as the header `Link` says; undefined on the last one. */
function afterOfNextPage(response: Response): number | bigint | undefined {
  const target = response.headers.get("Link")?.match(/<(.*?)>/)?.[1];
  const after = target && new URL(target, response.url).searchParams.get("after");
  return after ? exact(after) : undefined;
}

async function page(client: ExactClient): Promise<void> {
  const pages: NewPlant[][] = [];
  for await (const plants of allPlants(client, 2)) {
    pages.push(plants);
  }
  const ids = pages.map((plants) => plants.map((plant) => plant.id));
  assert.deepEqual(ids, [[SMALLEST, 7], [8, BEYOND_NUMBERS], [LARGEST]]);

  const { data } = await client.GET("/plants", { params: { query: { after: BEYOND_NUMBERS } } });
  assert.deepEqual(data, [{ id: LARGEST, name: "Rosa" }]);
}

async function importAndExport(client: ExactClient): Promise<void> {
  const rows = [1n, 2n].map((more) => `${BEYOND_NUMBERS + more},Rosa,`);
  const csv = ["id,name,tag", ...rows, `${BEYOND_NUMBERS},Rosa,`].join("\n");
  const { data: report } = await client.POST("/plants/import", {
    params: { query: { on_conflict: "skip" } },
    headers: { "Content-Type": "text/csv" },
    body: csv,
    // It is text already.
    bodySerializer: (body) => body,
  });
  assert.deepEqual(report, { created: 2, replaced: 0, skipped: 1, failed: 0, errors: [] });

  const array = await client.POST("/plants/import", {
    params: { query: { on_conflict: "skip" } },
    body: [{ id: BEYOND_NUMBERS, name: "Rosa" }],
  });
  assert.equal(array.data?.skipped, 1);
  const ndjson = await client.POST("/plants/import", {
    params: { query: { on_conflict: "skip" } },
    headers: { "Content-Type": "application/x-ndjson" },
    body: `{"id":${BEYOND_NUMBERS},"name":"Rosa"}\n`,
    bodySerializer: (body) => body,
  });
  assert.equal(ndjson.data?.skipped, 1);

  const { data: exported } = await client.GET("/plants/export", {
    headers: { Accept: "text/csv" },
    parseAs: "text",
  });
  const lines = exported?.trimEnd().split(/\r?\n/);
  assert.equal(lines?.length, 1 + 5 + 2);
  assert.equal(lines[0], "id,name,tag");
  assert.equal(lines.at(-1), `${LARGEST},Rosa,`);
}

async function beRefused(baseUrl: string): Promise<void> {
  const stranger = createClient<paths>({ baseUrl, headers: { Authorization: "Bearer unknown" } });
  const refused = await stranger.GET("/plants/{id}", { params: { path: { id: 7 } } });
  assert.equal(refused.response.status, 401);
  assert.equal(typeof refused.error?.error, "number");
}

const { PLANTS_URL: baseUrl, PLANTS_TOKEN: token } = process.env;
assert(baseUrl && token, "PLANTS_URL and PLANTS_TOKEN say where to go and what to show");
const headers = { Authorization: `Bearer ${token}` };
await useNumbers(baseUrl, headers);
const client = createExactClient({ baseUrl, headers });
await fail(client);
await changeWhatHasNotChangedSince(client);
await patch(client);
await remove(client);
await keepLargeIds(client);
await page(client);
await importAndExport(client);
await beRefused(baseUrl);
