/** Requests between this page and one kernel, in both directions: docs/protocol/notebook.md. */

import type { Json, JsonObject } from "../json";

/** The kernel opens a comm for this when it loads the extension. */
export const LOADED_TARGET = "cellwright.documents";

export const CHUNK_CHARS = 200_000;
export const REQUEST_TIMEOUT_MS = 15_000;

/** The other side cannot do what was asked; `code` says why. */
export class RequestError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly details: JsonObject = {},
  ) {
    super(message);
  }
}

const LATE: JsonObject = { code: "late", message: "The page has read this too late.", details: {} };

export type RequestHandler = (params: JsonObject, link: RpcLink) => Json | Promise<Json>;

type RpcMessage = {
  type: string;
  id: string;
  method: string;
  params: JsonObject;
  /** Of the kernel's clock, in seconds; and how many seconds it waits for the answer. */
  sent?: number;
  within?: number;
  result?: Json;
  error?: { code: string; message: string; details?: JsonObject };
};
type ChunkMessage = { type: "part"; of: number; text: string; last: boolean };
type PendingRequest = { resolve(result: Json): void; reject(error: RequestError): void };

export class RpcLink {
  private readonly pending = new Map<string, PendingRequest>();
  private readonly chunks = new Map<number, string[]>();
  private requests = 0;
  private messages = 0;
  /** The least time that a request took, with the difference of the clocks. */
  private leastDelay = Infinity;

  /** `handlers` are what the kernel may ask for, by method. */
  constructor(
    private readonly comm: { send(data: JsonObject): unknown },
    private readonly handlers: ReadonlyMap<string, RequestHandler>,
  ) {}

  /** Asks the kernel for something. Rejects with RequestError. */
  request(method: string, params: JsonObject, timeout = REQUEST_TIMEOUT_MS): Promise<Json> {
    const id = `p${++this.requests}`;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.settle(id)?.reject(new RequestError("timeout", "The kernel does not answer."));
      }, timeout);
      const done = <Value>(settle: (value: Value) => void) => (value: Value): void => {
        clearTimeout(timer);
        settle(value);
      };
      this.pending.set(id, { resolve: done(resolve), reject: done(reject) });
      this.send({ type: "request", id, method, params });
    });
  }

  /** Tells the kernel something. */
  send(message: JsonObject): void {
    const text = JSON.stringify(message);
    if (text.length <= CHUNK_CHARS) {
      this.comm.send(message);
      return;
    }
    const of = ++this.messages;
    for (let start = 0; start < text.length; start += CHUNK_CHARS) {
      const last = start + CHUNK_CHARS >= text.length;
      this.comm.send({ type: "part", of, text: text.slice(start, start + CHUNK_CHARS), last });
    }
  }

  /** Takes a message of the kernel; gives it back, whole, when it is neither a request nor a reply. */
  receive(data: unknown): { readonly type: string } | null {
    const message = this.assemble(data as RpcMessage | ChunkMessage);
    if (message?.type === "request") void this.serve(message);
    else if (message?.type === "reply") this.receiveReply(message);
    else return message;
    return null;
  }

  /** The connection is over: nobody answers any more. */
  end(): void {
    for (const id of [...this.pending.keys()]) this.settle(id)?.reject(new RequestError("gone", "The kernel is gone."));
  }

  private assemble(piece: RpcMessage | ChunkMessage): RpcMessage | null {
    if (!isChunk(piece)) return piece;
    const texts = this.chunks.get(piece.of) ?? [];
    texts.push(piece.text);
    this.chunks.set(piece.of, texts);
    if (!piece.last) return null;
    this.chunks.delete(piece.of);
    return JSON.parse(texts.join("")) as RpcMessage;
  }

  private async serve({ id, method, params, ...asked }: RpcMessage): Promise<void> {
    const answer = this.isLate(asked) ? { error: LATE } : await this.answer(method, params);
    if (id) this.send({ type: "reply", id, ...answer });
  }

  /** True for a request that the kernel has given up: this page slept meanwhile, and another one may have done it. */
  private isLate({ sent, within }: Pick<RpcMessage, "sent" | "within">): boolean {
    if (sent === undefined || within === undefined) return false;
    const delay = Date.now() / 1000 - sent;
    this.leastDelay = Math.min(this.leastDelay, delay);
    return delay - this.leastDelay > within;
  }

  private async answer(method: string, params: JsonObject): Promise<JsonObject> {
    const handler = this.handlers.get(method);
    try {
      if (!handler) throw new RequestError("unknown_method", `This page does not know ${method}: reload it.`);
      return { result: await handler(params, this) };
    } catch (error) {
      if (error instanceof RequestError) {
        return { error: { code: error.code, message: error.message, details: error.details } };
      }
      console.error("Cellwright:", error);
      return { error: { code: "failed", message: String(error), details: {} } };
    }
  }

  private receiveReply({ id, result, error }: RpcMessage): void {
    const waiting = this.settle(id);
    if (error) waiting?.reject(new RequestError(error.code, error.message, error.details));
    else waiting?.resolve(result ?? null);
  }

  private settle(id: string): PendingRequest | undefined {
    const waiting = this.pending.get(id);
    this.pending.delete(id);
    return waiting;
  }
}

function isChunk(piece: RpcMessage | ChunkMessage): piece is ChunkMessage {
  return piece.type === "part";
}
