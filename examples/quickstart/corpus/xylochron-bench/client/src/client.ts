/** The HTTP client: sessions, leases, rings. Errors of the server become `BenchError`. */

import type { ErrorBody, ErrorCode, Exported, Lease, Order, RingResult, Rings } from "./types.js";

export interface BenchClientOptions {
  /** With the base path of a proxy, without a slash at the end. */
  baseUrl: string;
  token: string;
  /** Milliseconds until a request is given up. Default 5000. */
  timeoutMs?: number;
}

/** A refusal of the server, with its status and code. */
export class BenchError extends Error {
  constructor(
    readonly status: number,
    readonly code: ErrorCode,
    message: string,
  ) {
    super(message);
    this.name = "BenchError";
  }
}

/** How often a lease is renewed: a third of its 60 s. */
export const HEARTBEAT_MS = 20_000;

export class BenchClient {
  private lease: Lease | null = null;
  private timer: ReturnType<typeof setInterval> | null = null;

  constructor(private readonly options: BenchClientOptions) {}

  async create(id: string, order: Order = "bark_to_pith", lastYear?: number): Promise<void> {
    await this.send("POST", "/sessions", { id, order, last_year: lastYear });
  }

  /** Opens the journal of a session again, after a crash or a restart of the server. */
  async recover(id: string): Promise<number> {
    const body = await this.send<{ count: number }>("POST", "/sessions", { id, recover: true });
    return body.count;
  }

  /**
   * Takes the lease of a session and keeps it by heartbeats until `close`.
   *
   * Browsers slow down the timers of hidden tabs to one a minute: the lease may run out
   * there, and the next write is refused with `lease_required`. Call `open` again then.
   */
  async open(id: string, steal = false): Promise<void> {
    this.stop();
    this.lease = await this.send<Lease>("POST", `/sessions/${id}/lease`, { steal });
    this.timer = setInterval(() => {
      this.send("PUT", `/sessions/${id}/lease`).catch(() => this.stop());
    }, HEARTBEAT_MS);
  }

  /** Gives the lease back. Without it the next client waits up to 60 s. */
  async close(id: string): Promise<void> {
    this.stop();
    await this.send("DELETE", `/sessions/${id}/lease`);
    this.lease = null;
  }

  ring(id: string, um: number, force = false): Promise<RingResult> {
    return this.send("POST", `/sessions/${id}/rings`, { um, force });
  }

  absent(id: string): Promise<{ count: number }> {
    return this.send("POST", `/sessions/${id}/absent`);
  }

  undo(id: string): Promise<{ count: number }> {
    return this.send("POST", `/sessions/${id}/undo`);
  }

  rings(id: string): Promise<Rings> {
    return this.send("GET", `/sessions/${id}/rings`);
  }

  export(id: string): Promise<Exported> {
    return this.send("GET", `/sessions/${id}/export`);
  }

  private stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
  }

  private async send<T>(method: string, path: string, body?: unknown): Promise<T> {
    const headers: Record<string, string> = {
      Authorization: `Bearer ${this.options.token}`,
      "Content-Type": "application/json",
    };
    if (this.lease) headers["X-Lease"] = this.lease.key;
    const response = await fetch(`${this.options.baseUrl}/api/v2${path}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(this.options.timeoutMs ?? 5000),
    });
    if (response.status === 204) return undefined as T;
    const json: unknown = await response.json();
    if (!response.ok) {
      const { error } = json as ErrorBody;
      throw new BenchError(response.status, error.code, error.message);
    }
    return json as T;
  }
}
