/** The shapes of the HTTP and WebSocket API, version 2. Lengths are whole micrometres. */

export type Micrometres = number;

export type Order = "pith_to_bark" | "bark_to_pith";

export interface RingResult {
  width_um: Micrometres;
  /** Rings in the session so far. */
  count: number;
}

export interface Rings {
  /** In the order of measuring, not of growth: see `Exported` for pith to bark. */
  widths_um: Micrometres[];
  order: Order;
}

export interface Exported {
  id: string;
  /** Astronomical; null for a floating sample. */
  first_year: number | null;
  /** Always from pith to bark. */
  widths_um: Micrometres[];
}

export interface Lease {
  /** Goes into the header `X-Lease` of every writing request. */
  key: string;
  /** Seconds until it runs out, 60 when fresh. */
  seconds: number;
}

/** Codes of refusals. New ones may come in a minor version: keep a default branch. */
export type ErrorCode =
  | "token_missing"
  | "token_unknown"
  | "role_too_low"
  | "origin_not_allowed"
  | "bad_request"
  | "bad_id"
  | "no_journal"
  | "session_exists"
  | "session_locked"
  | "lease_required"
  | "negative_width"
  | "ring_too_narrow"
  | "nothing_to_undo"
  | "not_found";

export interface ErrorBody {
  error: { code: ErrorCode; message: string };
}

/** Messages of `/api/v2/live`. */
export type LiveMessage =
  | { type: "position"; um: Micrometres }
  | { type: "ring"; session: string; width_um: Micrometres; count: number }
  | { type: "encoder_error"; code: "E01" | "E02" | "E03" }
  | { type: "bye"; reason: "shutdown" | "token_revoked" };
