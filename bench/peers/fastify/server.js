// The create, the read and the list of a Plant Store, as they are quickly written with Fastify and SQLite, to measure
// plantd against:
//   PLANTD_TOKEN=TOKEN node server.js --listen ADDRESS:PORT --data DIR
import { timingSafeEqual } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import Database from "better-sqlite3";
import Fastify from "fastify";

const { values: options } = parseArgs({
  options: { listen: { type: "string" }, data: { type: "string" } },
});
const [host, port] = options.listen.split(":");
const expectedCredentials = Buffer.from(`Bearer ${process.env.PLANTD_TOKEN}`);

mkdirSync(options.data, { recursive: true });
const database = new Database(join(options.data, "plants.db"));
database.pragma("journal_mode = WAL");
// Every commit is synced, so that an answer means that the plant is on disk.
database.pragma("synchronous = FULL");
database.exec("CREATE TABLE IF NOT EXISTS plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)");
const insert = database.prepare("INSERT INTO plants (id, name, tag) VALUES (?, ?, ?) ON CONFLICT DO NOTHING");
const selectOne = database.prepare("SELECT id, name, tag FROM plants WHERE id = ?");
const selectPage = database.prepare("SELECT id, name, tag FROM plants WHERE id > ? ORDER BY id LIMIT ?");

// An id that a JavaScript number represents exactly.
const id = { type: "integer", minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };
const text = { type: "string", minLength: 1, maxLength: 255 };
const newPlant = {
  type: "object",
  required: ["id", "name"],
  properties: { id, name: text, tag: { ...text, type: ["string", "null"] } },
};
// Fastify compiles serializers from the schemas of answers.
const answer = (properties) => ({ type: "object", properties });
const answeredText = { type: "string" };
const createdPlant = answer({ name: answeredText, tag: answeredText });
const plant = answer({ id: { type: "integer" }, name: answeredText, tag: answeredText });
const failure = answer({ error: { type: "integer" }, message: answeredText });

// A plant without a tag has no member `tag`.
const plantOf = (row) => (row.tag === null ? { id: row.id, name: row.name } : row);

const app = Fastify({ logger: false });

app.addHook("onRequest", (request, reply, done) => {
  const credentials = Buffer.from(request.headers.authorization ?? "");
  if (credentials.length === expectedCredentials.length && timingSafeEqual(credentials, expectedCredentials)) {
    done();
    return;
  }
  reply.code(401).header("www-authenticate", "Bearer");
  reply.send({ error: 2001, message: "send the header `Authorization: Bearer TOKEN`" });
});

app.setErrorHandler((error, request, reply) => {
  const status = error.statusCode ?? 500;
  const number = error.validation ? (error.validationContext === "body" ? 1004 : 1006) : status < 500 ? 1001 : 5001;
  reply.code(status).send({ error: number, message: error.message });
});

app.setNotFoundHandler((request, reply) => {
  reply.code(404).send({ error: 4004, message: "there is no such path" });
});

app.post(
  "/plants",
  { schema: { body: newPlant, response: { 200: createdPlant, "4xx": failure } } },
  (request, reply) => {
    const { id, name, tag } = request.body;
    if (insert.run(id, name, tag ?? null).changes === 0) {
      reply.code(400).send({ error: 3001, message: `a plant with id ${id} exists already; choose another id` });
      return;
    }
    reply.send({ name, tag: tag ?? undefined });
  },
);

app.get(
  "/plants/:id",
  { schema: { params: answer({ id }), response: { 200: plant, "4xx": failure } } },
  (request, reply) => {
    const row = selectOne.get(request.params.id);
    if (row === undefined) {
      reply.code(404).send({ error: 3002, message: `there is no plant with id ${request.params.id}` });
      return;
    }
    reply.send(plantOf(row));
  },
);

const page = {
  type: "object",
  properties: {
    limit: { type: "integer", minimum: 1, maximum: 1000, default: 100 },
    after: { ...id, minimum: Number.MIN_SAFE_INTEGER - 1, default: Number.MIN_SAFE_INTEGER - 1 },
  },
};

app.get(
  "/plants",
  { schema: { querystring: page, response: { 200: { type: "array", items: plant }, "4xx": failure } } },
  (request, reply) => {
    reply.send(selectPage.all(request.query.after, request.query.limit).map(plantOf));
  },
);

process.once("SIGTERM", async () => {
  await app.close();
  database.close();
});

await app.listen({ host, port: Number(port) });
console.log(`fastify listening on http://${host}:${app.server.address().port}`);
