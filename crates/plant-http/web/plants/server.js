// The server as this page uses it: requests with the token, failures, and JSON whose ids stay exact.

// The number of a failure, by its meaning (the table of errors of the interface).
export const ID_TAKEN = "3001";
export const PRECONDITION_FAILED = "3003";

// After these, nothing was done, and the same request may succeed later.
const TOO_MANY_REQUESTS = "2004";
const BUSY = "5003";
const TOO_SLOW = "5004";
// A proxy answers so while it does not reach the server. The outcome is unknown.
const OF_A_PROXY = [502, 503, 504];

const LONGEST_PAUSE_MS = 5000;

/** Whether this browser can read and write every id: JSON.parse alone would round them to 53 bits. */
export const keepsIds = JSON.rawJSON !== undefined && parse("9007199254740993") === "9007199254740993";

/** The value of a JSON text, with each number as the text that stands there. */
export function parse(json) {
  return JSON.parse(json, (_key, value, context) => (typeof value === "number" ? context?.source : value));
}

/** An answer that is not a success, or the lack of an answer. */
export class Failure extends Error {
  /** `status` is 0 without an answer, `number` the error of the interface, if the answer is one. */
  constructor(message, { status = 0, number = "", retryAfterMs = 0 } = {}) {
    super(message);
    Object.assign(this, { status, number, retryAfterMs });
  }

  static of(status, body, retryAfter) {
    const { error: number = "", message = `The answer ${status} is not from a plant store.` } = errorIn(body);
    return new Failure(message, { status, number, retryAfterMs: 1000 * Number(retryAfter) || 0 });
  }

  get isOffline() {
    return this.status === 0;
  }

  /** Whether a request that may be repeated is worth repeating. */
  get isTemporary() {
    const isOfProxy = this.number === "" && OF_A_PROXY.includes(this.status);
    return this.isOffline || isOfProxy || [TOO_MANY_REQUESTS, BUSY, TOO_SLOW].includes(this.number);
  }
}

function errorIn(body) {
  try {
    return parse(body) ?? {};
  } catch {
    return {};
  }
}

/** A plant as JSON, with its id as it was typed. */
export function plantJson({ id, name, tag }) {
  return JSON.stringify({ id: JSON.rawJSON(id), name, tag: tag || undefined });
}

export class Server {
  /**
   * `onRefused` is told when the token is no longer valid, `onTrouble` the failure that delays a request, and null
   * when an answer has come again.
   */
  constructor(token, { onRefused, onTrouble }) {
    this.token = token;
    this.onRefused = onRefused;
    this.onTrouble = onTrouble;
  }

  get authorization() {
    return { Authorization: `Bearer ${this.token}` };
  }

  /** Sends one request. Throws a Failure unless the answer is a success. `path` is relative to the page. */
  async send(method, path, { headers = {}, body, signal } = {}) {
    let answer;
    try {
      answer = await fetch(path, { method, headers: { ...this.authorization, ...headers }, body, signal });
    } catch (error) {
      signal?.throwIfAborted();
      throw new Failure(error.message);
    }
    if (answer.ok) return answer;
    throw this.failed(Failure.of(answer.status, await text(answer), answer.headers.get("Retry-After")));
  }

  /** Passes on a failure. */
  failed(failure) {
    if (failure.status === 401) this.onRefused(failure);
    return failure;
  }

  /** Sends a request that may be repeated, until there is an answer that another try would not change. */
  async settle(method, path, options = {}) {
    for (let tries = 1; ; tries++) {
      try {
        const answer = await this.send(method, path, options);
        // What is cut off must not look whole: the body belongs to the try.
        const body = await text(answer, options.signal);
        this.onTrouble(null);
        return { headers: answer.headers, body };
      } catch (failure) {
        const isWorthAnotherTry = failure.isTemporary || (method === "GET" && failure.status >= 500);
        if (!isWorthAnotherTry) throw failure;
        this.onTrouble(failure);
        const longest = Math.min(LONGEST_PAUSE_MS, 200 * 2 ** tries);
        await pause(Math.max(failure.retryAfterMs, Math.random() * longest), options.signal);
      }
    }
  }

  /** GETs JSON. */
  async read(path, signal) {
    const { headers, body } = await this.settle("GET", path, { signal });
    return { headers, value: parse(body) };
  }
}

async function text(answer, signal) {
  try {
    return await answer.text();
  } catch (error) {
    signal?.throwIfAborted();
    throw new Failure(error.message);
  }
}

/** Waits, but not beyond the moment at which the browser is online again. */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(end, ms);
    addEventListener("online", end);
    signal?.addEventListener("abort", end);
    function end() {
      clearTimeout(timer);
      removeEventListener("online", end);
      signal?.removeEventListener("abort", end);
      signal?.aborted ? reject(signal.reason) : resolve();
    }
    if (signal?.aborted) end();
  });
}

/** The address to which a `Link` with rel="next" leads, or null. */
export function nextLink(headers) {
  const link = /^<([^>]*)>/.exec(headers.get("Link") ?? "");
  return link && new URL(link[1], document.baseURI);
}
