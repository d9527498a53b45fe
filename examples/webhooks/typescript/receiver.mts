// Receives webhooks of a Plant Store, and keeps a copy of the plants in SQLite.
//
// It refuses what the store has not signed, handles each delivery once, and loads an export when events were lost.
import { type IncomingMessage, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import Database from "better-sqlite3";
import { parse, parseNumberAndBigInt } from "lossless-json";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

type Plant = { id: bigint; name: string; tag?: string };
type Event = { kind: "created" | "updated" | "deleted"; id: bigint; plant?: Omit<Plant, "id"> };
type Delivery = { type: string; data: { events: Event[] } };

// A delivery has at most 20,000 bytes.
const BODY_MAX_BYTES = 65_536;

// Deliveries come in order, one at a time. So once the next one is here, only a copy that was held up on its way can
// repeat an id, and 5 minutes after it was signed, its timestamp is refused; 10 if the clocks differ. An hour is ample.
// The newest id stays for as long as the store may repeat it, because only the next delivery removes old ids.
const REMEMBERED_SECONDS = 3600;

function setting(name: string, otherwise?: string): string {
  const value = process.env[name] ?? otherwise;
  if (value === undefined) throw new Error(`set ${name}`);
  return value;
}

const webhook = new Webhook(setting("WEBHOOK_SECRET"));
const exportUrl = `${setting("PLANTS_URL", "http://127.0.0.1:8080")}/plants/export`;
const authorization = { Authorization: `Bearer ${setting("PLANTS_TOKEN")}` };

const database = new Database(setting("DATABASE", "copy.db"));
database.exec(`
  CREATE TABLE IF NOT EXISTS plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT);
  CREATE TABLE IF NOT EXISTS deliveries (id TEXT PRIMARY KEY, seen_at INTEGER NOT NULL);
`);
const seeAgain = database.prepare("UPDATE deliveries SET seen_at = ? WHERE id = ?");
const forget = database.prepare("DELETE FROM deliveries WHERE seen_at < ?");
const remember = database.prepare("INSERT INTO deliveries VALUES (?, ?)");
const storePlant = database.prepare("INSERT OR REPLACE INTO plants VALUES (?, ?, ?)");
const deletePlant = database.prepare("DELETE FROM plants WHERE id = ?");
const deleteAll = database.prepare("DELETE FROM plants");

// Every integer becomes a bigint: JSON.parse would round ids beyond 2^53.
const parseExactly = (json: string) => parse(json, undefined, parseNumberAndBigInt);

/** Stores the id of the delivery and the effect in one transaction, so that a repeat has no second effect. */
async function handle(id: string, body: string): Promise<void> {
  const { type, data } = parseExactly(body) as Delivery;
  // The id of an ignored delivery is not stored: a `plants.test` comes out of order, and would remove the newest id.
  if (type !== "plants.changed" && type !== "plants.lost") return;
  const now = Math.floor(Date.now() / 1000);
  if (seeAgain.run(now, id).changes > 0) return;
  // A transaction of better-sqlite3 cannot wait, so the export comes before it.
  const plants = type === "plants.lost" ? await loadExport() : [];
  const storeOnce = database.transaction(() => {
    forget.run(now - REMEMBERED_SECONDS);
    // Fails if a repeat was handled while the export was loaded.
    remember.run(id, now);
    if (type === "plants.lost") {
      deleteAll.run();
      plants.forEach(store);
    } else data.events.forEach(apply);
  });
  storeOnce.immediate();
}

function apply({ kind, id, plant }: Event): void {
  if (kind === "deleted") deletePlant.run(id);
  else if (plant) store({ ...plant, id });
  // A plant that has changed again is in a later event.
}

function store({ id, name, tag }: Plant): void {
  storePlant.run(id, name, tag ?? null);
}

async function loadExport(): Promise<Plant[]> {
  const signal = AbortSignal.timeout(600_000);
  const answer = await fetch(exportUrl, { headers: authorization, signal });
  const rows = await answer.text();
  if (!answer.ok) throw new Error(rows);
  return rows.split("\n").filter(Boolean).map((row) => parseExactly(row) as Plant);
}

async function answer(request: IncomingMessage): Promise<number> {
  // A body without a length is refused too.
  if (!(Number(request.headers["content-length"]) <= BODY_MAX_BYTES)) return 413;
  const body = await buffer(request);
  const headers = request.headers as Record<string, string>;
  webhook.verify(body, headers, { jsonParse: false });
  await handle(headers["webhook-id"], body.toString());
  return 204;
}

const server = createServer(async (request, response) => {
  try {
    response.statusCode = await answer(request);
  } catch (error) {
    console.error(error);
    // After a 500, the store sends the delivery again.
    response.statusCode = error instanceof WebhookVerificationError ? 400 : 500;
  }
  response.end();
});
server.listen(Number(setting("PORT", "8090")), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
