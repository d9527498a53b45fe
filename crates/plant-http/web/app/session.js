// One sign-in: the server with a token, what the token may do, and the list. All its requests end with it.

import { follow } from "./follow.js";
import { PlantList } from "./plant_list.js";
import { Failure, Server } from "./server.js";

export class Session {
  /** The name of the token. */
  name = "";
  mayWrite = false;
  #stop = new AbortController();

  /** `onRefused` is called when the token is not valid, or is no longer. */
  constructor(token, { onChange, onRefused }) {
    const { signal } = this.#stop;
    this.server = new Server(token, {
      signal,
      onChange,
      onRefused: (failure) => {
        this.end(failure);
        onRefused();
      },
    });
    this.list = new PlantList(this.server, onChange);
  }

  /** Asks what the token may do. Throws a Failure if the token is not valid, or reads no plants. */
  async open() {
    const { value } = await this.server.read("token");
    // A scope that this page does not know allows nothing that it needs.
    if (!["read", "write"].includes(value.scope)) {
      throw new Failure(`a token with the scope ${value.scope} reads no plants; use one with the scope read or write`);
    }
    this.name = value.name;
    this.mayWrite = value.scope === "write";
  }

  follow() {
    follow(this.server, () => this.list.refresh());
  }

  /** Ends every request, each with this failure. */
  end(failure) {
    this.#stop.abort(failure);
  }
}
