// The server as this page uses it: requests with the token, failures, and JSON whose ids stay exact.

// The number of a failure, by its meaning (docs/api.md, "Errors").
export const RULE_BROKEN = "1005";
export const PRECONDITION_FAILED = "3003";

// After these, nothing was done, and the same request may succeed later.
const TOO_MANY_REQUESTS = "2004";
const BUSY = "5003";
const TOO_SLOW = "5004";
// What a proxy answers when it cannot reach the server. The outcome of the request is unknown.
const STATUSES_OF_PROXIES = [502, 503, 504];

// A connection that was lost while the machine slept neither answers nor fails.
const TRY_TIMEOUT_MS = 30_000;
const LONGEST_PAUSE_MS = 5000;
// A person does not wait for longer, whatever a server or a proxy asks for.
const LONGEST_RETRY_AFTER_MS = 30_000;

/** Whether this browser can read every id: JSON.parse alone would round them to 53 bits. */
export const keepsIds = parse("9007199254740993") === "9007199254740993";

/** The value of a JSON text, with each number as the text that stands there. */
export function parse(json) {
  return JSON.parse(json, (_key, value, context) => (typeof value === "number" ? context?.source : value));
}

/** An answer that is not a success, or the lack of an answer. */
export class Failure extends Error {
  /** `status` is 0 without an answer, and `number` empty if the answer is not from a plant store. */
  constructor(message, { status = 0, number = "", retryAfterMs = 0 } = {}) {
    super(message);
    Object.assign(this, { status, number, retryAfterMs });
  }

  static of(status, body, retryAfter) {
    const { error: number = "", message = `the answer ${status} is not from a plant store` } = errorIn(body);
    const retryAfterMs = Math.min(1000 * Number(retryAfter) || 0, LONGEST_RETRY_AFTER_MS);
    return new Failure(message, { status, number, retryAfterMs });
  }

  get isOffline() {
    return this.status === 0;
  }

  /** Whether the same request may succeed later. */
  get isTemporary() {
    const isOfProxy = this.number === "" && (this.status === 200 || STATUSES_OF_PROXIES.includes(this.status));
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

export class Server {
  /** The failure that delays a request; null while requests are answered. */
  trouble = null;
  #authorization;
  #onChange;
  #onRefused;

  /** The signal ends all requests. `onChange` is called when `trouble` has changed. */
  constructor(token, { signal, onChange, onRefused }) {
    this.#authorization = `Bearer ${token}`;
    this.signal = signal;
    this.#onChange = onChange;
    this.#onRefused = onRefused;
  }

  /** Sends a request once. Throws a Failure unless the answer is a success. `path` is relative to the page. */
  async send(method, path, { headers = {}, body, signal } = {}) {
    const ended = this.#withEnd(signal);
    let answer;
    try {
      const allHeaders = { ...headers, Authorization: this.#authorization };
      answer = await fetch(path, { method, headers: allHeaders, body, signal: ended });
    } catch (error) {
      ended.throwIfAborted();
      throw new Failure(error.message);
    }
    if (answer.ok) return answer;
    throw this.#failed(answer.status, await readText(answer, ended), answer.headers.get("Retry-After"));
  }

  /**
   * Sends a request that may be repeated, until there is an answer that another try would not change. Returns its headers
   * and the value of its JSON, if it has any.
   */
  async sendWithRetry(method, path, { signal, ...options } = {}) {
    const ended = this.#withEnd(signal);
    try {
      for (let tries = 1; ; tries++) {
        try {
          return await this.#sendInTime(method, path, options, ended);
        } catch (failure) {
          ended.throwIfAborted();
          const isWorthAnotherTry = failure.isTemporary || (method === "GET" && failure.status >= 500);
          if (!isWorthAnotherTry) throw failure;
          this.#setTrouble(failure);
          const longestMs = Math.min(LONGEST_PAUSE_MS, 200 * 2 ** tries);
          await pause(Math.max(failure.retryAfterMs, Math.random() * longestMs), ended);
        }
      }
    } finally {
      this.#setTrouble(null);
    }
  }

  /** One try. The answer is read within it, so that an answer that is cut off is asked for again. */
  async #sendInTime(method, path, options, ended) {
    const timeout = AbortSignal.timeout(TRY_TIMEOUT_MS);
    const signal = AbortSignal.any([ended, timeout]);
    try {
      const answer = await this.send(method, path, { ...options, signal });
      return { headers: answer.headers, value: jsonOf(answer.status, await readText(answer, signal)) };
    } catch (failure) {
      throw timeout.aborted ? new Failure("there was no answer in time") : failure;
    }
  }

  /** GETs JSON. */
  read(path, signal) {
    return this.sendWithRetry("GET", path, { signal });
  }

  /** POSTs a file once, and returns the JSON of the answer. Unlike fetch, an XMLHttpRequest tells how far it is. */
  async upload(path, file, type, { onProgress, signal }) {
    const ended = this.#withEnd(signal);
    ended.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers();
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.setRequestHeader("Authorization", this.#authorization);
    request.setRequestHeader("Content-Type", type);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
    request.onload = resolve;
    request.onerror = () => reject(new Failure("the connection broke off"));
    ended.addEventListener("abort", () => {
      request.abort();
      reject(ended.reason);
    });
    request.send(file);
    await promise;
    const { status, responseText } = request;
    if (status !== 200) throw this.#failed(status, responseText);
    return jsonOf(status, responseText);
  }

  #withEnd(signal) {
    return signal ? AbortSignal.any([this.signal, signal]) : this.signal;
  }

  #failed(status, body, retryAfter) {
    const failure = Failure.of(status, body, retryAfter);
    if (status === 401) this.#onRefused(failure);
    return failure;
  }

  #setTrouble(failure) {
    if (this.trouble === failure) return;
    this.trouble = failure;
    this.#onChange();
  }
}

async function readText(answer, signal) {
  try {
    return await answer.text();
  } catch (error) {
    signal.throwIfAborted();
    throw new Failure(error.message);
  }
}

/** The JSON of a success, null without a body. A proxy may answer with a page of its own instead. */
function jsonOf(status, body) {
  try {
    return body === "" ? null : parse(body);
  } catch {
    throw Failure.of(status, body);
  }
}

/** Waits, but not beyond the moment at which the browser is online again. Throws when the signal ends the waiting. */
export async function pause(ms, signal) {
  signal.throwIfAborted();
  const { promise, resolve } = Promise.withResolvers();
  const done = new AbortController();
  const timer = setTimeout(resolve, ms);
  addEventListener("online", resolve, { signal: done.signal });
  signal.addEventListener("abort", resolve, { signal: done.signal });
  await promise;
  clearTimeout(timer);
  done.abort();
  signal.throwIfAborted();
}

/** The parameters that have a value, as a query. */
export function queryOf(parameters) {
  return new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
}

/** The place that the `Link` with a relation, such as `next`, leads to: its `after` or `before`. Null if there is none. */
export function linkTo(relation, headers) {
  const links = [...(headers.get("Link") ?? "").matchAll(/<([^>]*)>; rel="(\w+)"/g)];
  const target = links.find(([, , ofLink]) => ofLink === relation)?.[1];
  if (target === undefined) return null;
  const { searchParams } = new URL(target, document.baseURI);
  return searchParams.has("before") ? { before: searchParams.get("before") } : { after: searchParams.get("after") };
}
