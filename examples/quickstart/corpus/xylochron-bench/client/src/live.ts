/** The live stream: positions and rings over a WebSocket, with reconnection. */

import type { LiveMessage } from "./types.js";

export interface LiveOptions {
  /** `wss://host/base/api/v2/live`. */
  url: string;
  token: string;
  onMessage: (message: LiveMessage) => void;
  /** Called with `false` when the connection is lost and `true` when it is back. */
  onStatus?: (connected: boolean) => void;
  /** Default true. */
  reconnect?: boolean;
  /** Longest pause between two attempts. Default 30000. */
  maxBackoffMs?: number;
}

/** Close codes after which another attempt is pointless. */
const FINAL = new Set([
  4401, // token missing or unknown
  4403, // origin not allowed
]);

export class Live {
  private socket: WebSocket | null = null;
  private attempt = 0;
  private closed = false;

  constructor(private readonly options: LiveOptions) {
    this.connect();
  }

  close(): void {
    this.closed = true;
    this.socket?.close(1000);
  }

  /** 500 ms, 1 s, 2 s … up to `maxBackoffMs`, with a fifth of it at random. */
  static backoff(attempt: number, maxMs: number, random: () => number = Math.random): number {
    const base = Math.min(500 * 2 ** attempt, maxMs);
    return base * (0.8 + 0.2 * random());
  }

  private connect(): void {
    // Browsers cannot set headers on a WebSocket, so the token travels as a subprotocol.
    this.socket = new WebSocket(this.options.url, ["bench.v2", `token.${this.options.token}`]);
    this.socket.onopen = () => {
      this.attempt = 0;
      this.options.onStatus?.(true);
    };
    this.socket.onmessage = (event) => {
      this.options.onMessage(JSON.parse(event.data as string) as LiveMessage);
    };
    this.socket.onclose = (event) => {
      this.options.onStatus?.(false);
      if (this.closed || FINAL.has(event.code) || this.options.reconnect === false) return;
      const wait = Live.backoff(this.attempt++, this.options.maxBackoffMs ?? 30_000);
      setTimeout(() => this.connect(), wait);
    };
  }
}
