// A client that keeps every id exact. JSON.parse makes a number of each integer and rounds those beyond 2^53.
import { isInteger, parse, stringify } from "lossless-json";
import createClient, { type Client, type ClientOptions, type Middleware } from "openapi-fetch";
import type { paths } from "./plant-store-exact.js";

/** A number, unless it cannot hold this integer. */
export function exact(digits: string): number | bigint {
  const number = Number(digits);
  return isInteger(digits) && !Number.isSafeInteger(number) ? BigInt(digits) : number;
}

const exactNumbers: Middleware = {
  async onResponse({ response }) {
    if (!response.ok || response.headers.get("Content-Type") !== "application/json") {
      return undefined;
    }
    const text = await response.text();
    const replacement = new Response(text, response);
    Object.defineProperty(replacement, "url", { value: response.url });
    replacement.json = async () => parse(text, undefined, exact);
    // Without it, openapi-fetch does not ask for the JSON.
    replacement.headers.set("Content-Length", String(new TextEncoder().encode(text).length));
    return replacement;
  },
};

export function createExactClient(options: ClientOptions): Client<paths> {
  const client = createClient<paths>({ bodySerializer: (body) => stringify(body), ...options });
  client.use(exactNumbers);
  return client;
}
