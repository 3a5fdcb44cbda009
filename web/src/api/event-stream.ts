/** `EventStream` follows a session or an agent: one stream that resumes where it was cut, or long polling from the same position. */

import { type StreamEvent, factNumber } from "./types";

export type Connection = "connecting" | "live" | "polling" | "offline" | "paused";

export interface StreamSource {
  /** Opens the stream after that fact. */
  stream(after: number, signal: AbortSignal): Promise<Response>;
  /** A page of the facts after that one; `waits`: for some seconds if there are none. Without it there is only the stream. */
  poll?(after: number, signal: AbortSignal, waits: boolean): Promise<Page>;
}

export interface Page {
  facts: StreamEvent[];
  has_more: boolean;
}

export interface StreamListener {
  events(events: StreamEvent[]): void;
  connection(state: Connection): void;
  /** Retrying is useless: not logged in, no such session, or none that has a stream. */
  refused(status: number): void;
  /** Facts start from the first again: the session was restored with fewer than this page has. */
  restart?(): void;
}

/** In milliseconds. */
export interface Timeouts {
  /** Without a byte, not even a keep-alive, until the stream counts as buffered or dead. */
  first: number;
  silence: number;
  /** The longest pause between two attempts. */
  backoff: number;
  /** How long to poll before a stream is tried again. */
  polling: number;
}

const TIMEOUTS: Timeouts = { first: 8000, silence: 50_000, backoff: 15_000, polling: 120_000 };

/** The response, if it is a success. */
export function checked(response: Response): Response {
  if ([401, 403, 404, 409].includes(response.status)) throw new StreamRefused(response.status);
  if (response.status === 400) throw new CursorGone("the fact to continue from does not exist");
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return response;
}

/** The name of a server-sent event is its type. Data that is no object stays a string. */
function parseEvent({ name, data }: ServerEvent): StreamEvent {
  if (name && !data.startsWith("{")) return { type: name, data };
  const event = JSON.parse(data) as StreamEvent;
  return name ? { ...event, type: name } : event;
}

class StreamRefused extends Error {
  constructor(readonly status: number) {
    super(`refused with ${status}`);
  }
}

class CursorGone extends Error {}

export class EventStream {
  private after: number;
  private isRestarting = false;
  private stop: AbortController | null = null;
  private failures = 0;
  private stalls = 0;
  private pollingUntil = 0;
  private wake: (() => void) | null = null;

  constructor(
    private readonly source: StreamSource,
    private readonly listener: StreamListener,
    after = 0,
    private readonly timeouts: Timeouts = TIMEOUTS,
  ) {
    this.after = after;
  }

  start(): void {
    if (this.stop) return;
    this.stop = new AbortController();
    void this.run(this.stop.signal);
  }

  /** Loses nothing: `start` continues after the last fact. */
  pause(): void {
    this.close();
    this.listener.connection("paused");
  }

  close(): void {
    this.stop?.abort();
    this.stop = null;
  }

  /** Skips the pause: the network is back, or a person looks at the page. */
  retryNow(): void {
    this.failures = 0;
    this.wake?.();
  }

  private async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (Date.now() < this.pollingUntil) await this.pollOnce(signal);
        else await this.streamOnce(signal);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof StreamRefused) {
          this.close();
          return this.listener.refused(error.status);
        }
        if (error instanceof CursorGone && this.after) {
          this.after = 0;
          this.isRestarting = true;
        }
        this.failures += 1;
        if (this.failures > 1 && !(await this.canPoll(signal)) && !signal.aborted) this.listener.connection("offline");
      }
      if (this.failures) await this.backOff(signal);
    }
  }

  /** A server that answers while its streams fail: something between here and there buffers them. */
  private async canPoll(signal: AbortSignal): Promise<boolean> {
    if (!this.source.poll || Date.now() < this.pollingUntil) return false;
    try {
      await this.pollOnce(signal, false);
    } catch {
      return false; // it is down
    }
    this.stalled();
    return true;
  }

  private async backOff(signal: AbortSignal): Promise<void> {
    const longest = Math.min(this.timeouts.backoff, 500 * 2 ** (this.failures - 1));
    const ms = longest * (0.5 + Math.random() / 2);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
      signal.addEventListener("abort", this.wake, { once: true });
    });
    this.wake = null;
  }

  private async streamOnce(signal: AbortSignal): Promise<void> {
    const attempt = new AbortController();
    const abort = (): void => attempt.abort();
    signal.addEventListener("abort", abort, { once: true });
    let isReceiving = false;
    let timer = setTimeout(abort, this.timeouts.first);
    try {
      if (!this.failures) this.listener.connection("connecting");
      const { body } = checked(await this.source.stream(this.after, attempt.signal));
      if (!body) throw new Error("the stream has no body");
      const parser = new SseParser();
      const chunks = body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await chunks.read();
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(abort, this.timeouts.silence);
        if (!isReceiving) {
          isReceiving = true;
          this.failures = 0;
          this.stalls = 0;
          this.listener.connection("live");
        }
        this.deliver(parser.feed(value).map(parseEvent));
      }
      if (!isReceiving) throw new Error("the stream ended before it sent anything");
      this.failures = Math.max(1, this.failures); // a server that ends streams is about to stop: wait before the next attempt
    } catch (error) {
      if (!isReceiving && attempt.signal.aborted && !signal.aborted) this.stalled();
      throw error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    }
  }

  private stalled(): void {
    this.stalls += 1;
    if (this.stalls >= 2 && this.source.poll) this.pollingUntil = Date.now() + this.timeouts.polling;
  }

  private async pollOnce(signal: AbortSignal, waits = true): Promise<void> {
    const page = await this.source.poll!(this.after, signal, waits);
    this.failures = 0;
    this.listener.connection("polling");
    this.deliver(page.facts);
    if (!page.has_more) this.listener.events([{ type: "caught_up" }]);
  }

  /** Delivers events up to the first gap; what follows a gap is requested again. */
  private deliver(events: StreamEvent[]): void {
    const delivered: StreamEvent[] = [];
    let missing = 0;
    for (const event of events) {
      const seq = factNumber(event);
      if (seq > this.after + 1) {
        missing = this.after + 1;
        break;
      }
      this.after = Math.max(this.after, seq);
      delivered.push(event);
    }
    if (delivered.length && this.isRestarting) {
      this.isRestarting = false;
      this.listener.restart?.();
    }
    if (delivered.length) this.listener.events(delivered);
    if (missing) throw new Error(`fact ${missing} is missing`);
  }
}

export interface ServerEvent {
  id: string;
  /** Empty for an event without one. */
  name: string;
  data: string;
}

/** Parses server-sent events from chunks of text. */
export class SseParser {
  private buffer = "";
  private id = "";
  private name = "";
  private data: string[] = [];

  /** The events that this chunk completes. */
  feed(chunk: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.buffer + chunk).split("\n");
    this.buffer = lines.pop() ?? "";
    for (const line of lines) {
      const event = this.line(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (event) events.push(event);
    }
    return events;
  }

  private line(line: string): ServerEvent | null {
    if (line === "") {
      const event = this.data.length ? { id: this.id, name: this.name, data: this.data.join("\n") } : null;
      this.data = [];
      this.id = "";
      this.name = "";
      return event;
    }
    if (line.startsWith(":")) return null;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.data.push(value);
    else if (name === "id") this.id = value;
    else if (name === "event") this.name = value;
    return null;
  }
}
