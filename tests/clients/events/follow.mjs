// Follows the events of a Plant Store with an EventSource, and prints a line for each.

import { writeSync } from 'node:fs';
import { EventSource } from 'eventsource';

const { PLANTS_URL: store, PLANTS_TOKEN: token } = process.env;
const print = (line) => writeSync(1, `${line}\n`);

// An EventSource has no option for headers.
const authorizedFetch = (url, init) =>
  fetch(url, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } });

function follow(query) {
  let last = query;
  const source = new EventSource(`${store}/events${query}`, { fetch: authorizedFetch });
  source.onopen = () => print('connected');
  source.onmessage = ({ data, lastEventId }) => {
    const { cursor, kind, id } = JSON.parse(data);
    if (cursor !== lastEventId) throw new Error(`${data} with the id ${lastEventId}`);
    last = `?after=${cursor}`;
    print(`event ${cursor} ${kind} ${id}`);
  };
  source.onerror = ({ code }) => {
    // Any answer but 200 ends an EventSource for good (HTML Standard, section 9.2.2), and a proxy answers 502 while the
    // server is away.
    if (source.readyState !== EventSource.CLOSED) return;
    print(`closed ${code}`);
    setTimeout(follow, 1000, last);
  };
}

follow('');
