/** Follows a session or an agent: one stream that resumes exactly where it was cut, or questions on the same cursor. */

import { EventReader, type ServerEvent } from "./sse";
import { type Frame, factNumber } from "./types";

export type Connection = "connecting" | "live" | "polling" | "offline" | "resting";

export interface Source {
  /** Opens the stream of what comes after that fact. */
  stream(after: number, signal: AbortSignal): Promise<Response>;
  /** A page of the facts after that one, which are waited for some seconds if asked. What has no pages is only streamed. */
  poll?(after: number, signal: AbortSignal, waits: boolean): Promise<Page>;
}

export interface Page {
  facts: Frame[];
  has_more: boolean;
}

export interface Listener {
  frames(frames: Frame[]): void;
  connection(state: Connection): void;
  /** The server will not answer, however often it is asked: not logged in, no such session, or none that has a stream. */
  refused(status: number): void;
  /** What follows is told from its first fact: the session was brought back with fewer than were told of it. */
  anew?(): void;
}

export interface Patience {
  /** Milliseconds without anything, not even a sign of life, until the stream counts as buffered or dead. */
  first: number;
  silence: number;
  /** The longest pause before it is tried again. */
  backoff: number;
  /** How long questions are asked before a stream is tried again. */
  polling: number;
}

const PATIENCE: Patience = { first: 8000, silence: 50_000, backoff: 15_000, polling: 120_000 };

/** Raises what the server will not answer otherwise, however often it is asked. */
export function checked(response: Response): Response {
  if ([401, 403, 404, 409].includes(response.status)) throw new Refused(response.status);
  if (response.status === 400) throw new NotThere("the fact to go on from is not there");
  if (!response.ok) throw new Error(`answered with ${response.status}`);
  return response;
}

/** The name of an event is its type; data that is no object is kept as it is. */
function frameOf({ name, data }: ServerEvent): Frame {
  if (name && !data.startsWith("{")) return { type: name, data };
  const frame = JSON.parse(data) as Frame;
  return name ? { ...frame, type: name } : frame;
}

class Refused extends Error {
  constructor(readonly status: number) {
    super(`refused with ${status}`);
  }
}

class NotThere extends Error {}

export class Follower {
  private after: number;
  private isAnew = false;
  private stop: AbortController | null = null;
  private failures = 0;
  private stalls = 0;
  private pollingUntil = 0;
  private wake: (() => void) | null = null;

  constructor(
    private readonly source: Source,
    private readonly listener: Listener,
    after = 0,
    private readonly patience: Patience = PATIENCE,
  ) {
    this.after = after;
  }

  start(): void {
    if (this.stop) return;
    this.stop = new AbortController();
    void this.run(this.stop.signal);
  }

  /** What comes meanwhile is not lost: `start` goes on after the last fact. */
  rest(): void {
    this.close();
    this.listener.connection("resting");
  }

  close(): void {
    this.stop?.abort();
    this.stop = null;
  }

  /** Does not wait for the next try: the network is back, or a person looks. */
  hurry(): void {
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
        if (error instanceof Refused) {
          this.close();
          return this.listener.refused(error.status);
        }
        if (error instanceof NotThere && this.after) {
          this.after = 0;
          this.isAnew = true;
        }
        this.failures += 1;
        if (this.failures > 1 && !(await this.isAnswered(signal)) && !signal.aborted) this.listener.connection("offline");
      }
      if (this.failures) await this.pause(signal);
    }
  }

  /** A server that answers while its streams fail: something between us holds them back. */
  private async isAnswered(signal: AbortSignal): Promise<boolean> {
    if (!this.source.poll || Date.now() < this.pollingUntil) return false;
    try {
      await this.pollOnce(signal, false);
    } catch {
      return false; // it is down
    }
    this.stalled();
    return true;
  }

  private async pause(signal: AbortSignal): Promise<void> {
    const longest = Math.min(this.patience.backoff, 500 * 2 ** (this.failures - 1));
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
    const giveUp = (): void => attempt.abort();
    signal.addEventListener("abort", giveUp, { once: true });
    let hasSpoken = false;
    let timer = setTimeout(giveUp, this.patience.first);
    try {
      if (!this.failures) this.listener.connection("connecting");
      const { body } = checked(await this.source.stream(this.after, attempt.signal));
      if (!body) throw new Error("the stream has no body");
      const events = new EventReader();
      const pieces = body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await pieces.read();
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(giveUp, this.patience.silence);
        if (!hasSpoken) {
          hasSpoken = true;
          this.failures = 0;
          this.stalls = 0;
          this.listener.connection("live");
        }
        this.pass(events.feed(value).map(frameOf));
      }
      if (!hasSpoken) throw new Error("the stream ended before it began");
      this.failures = Math.max(1, this.failures); // a server that ends streams is about to go: do not rush it
    } catch (error) {
      if (!hasSpoken && attempt.signal.aborted && !signal.aborted) this.stalled();
      throw error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", giveUp);
    }
  }

  private stalled(): void {
    this.stalls += 1;
    if (this.stalls >= 2 && this.source.poll) this.pollingUntil = Date.now() + this.patience.polling;
  }

  private async pollOnce(signal: AbortSignal, waits = true): Promise<void> {
    const found = await this.source.poll!(this.after, signal, waits);
    this.failures = 0;
    this.listener.connection("polling");
    this.pass(found.facts);
    if (!found.has_more) this.listener.frames([{ type: "caught_up" }]);
  }

  /** Passes on what follows without a gap; beyond one, it is asked for again. */
  private pass(frames: Frame[]): void {
    const passed: Frame[] = [];
    let missing = 0;
    for (const frame of frames) {
      const seq = factNumber(frame);
      if (seq > this.after + 1) {
        missing = this.after + 1;
        break;
      }
      this.after = Math.max(this.after, seq);
      passed.push(frame);
    }
    if (passed.length && this.isAnew) {
      this.isAnew = false;
      this.listener.anew?.();
    }
    if (passed.length) this.listener.frames(passed);
    if (missing) throw new Error(`fact ${missing} is missing`);
  }
}
