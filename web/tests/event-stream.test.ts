import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { type Connection, type Page, type StreamSource, EventStream, checked } from "../src/api/event-stream";
import { SseParser } from "../src/api/event-stream";
import type { StreamEvent } from "../src/api/types";

const TIMEOUTS = { first: 5000, silence: 5000, backoff: 40, polling: 60_000 };
const IMPATIENT = { ...TIMEOUTS, first: 150 };

type Handler = (after: number, isStream: boolean, response: ServerResponse, turn: number) => void;

let server: Server | null = null;
let stream: EventStream | null = null;

afterEach(() => {
  stream?.close();
  server?.closeAllConnections();
  server?.close();
});

const fact = (seq: number): string => `id: ${seq}\ndata: ${JSON.stringify({ type: "fact", seq, text: `ü🐴${seq}` })}\n\n`;

/** Follows a test server until the wanted events have arrived. */
async function follow(handler: Handler, wanted: (events: StreamEvent[], states: Connection[], refused: number) => boolean, timeouts = TIMEOUTS): Promise<{ events: StreamEvent[]; states: Connection[]; refused: number; requests: string[] }> {
  const requests: string[] = [];
  const events: StreamEvent[] = [];
  const states: Connection[] = [];
  let refused = 0;
  let turn = 0;
  server = createServer((request: IncomingMessage, response) => {
    const isStream = request.headers.accept === "text/event-stream";
    const after = Number(new URL(request.url ?? "", "http://x").searchParams.get("after"));
    requests.push(`${isStream ? "stream" : "poll"} ${after}`);
    if (isStream) response.setHeader("Content-Type", "text/event-stream");
    handler(after, isStream, response, (turn += 1));
  });
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  const root = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const source: StreamSource = {
    stream: (after, signal) => fetch(`${root}?after=${after}`, { signal, headers: { Accept: "text/event-stream" } }),
    poll: async (after, signal) => {
      const answer = checked(await fetch(`${root}?after=${after}`, { signal, headers: { Accept: "application/json" } }));
      return (await answer.json()) as Page;
    },
  };
  await new Promise<void>((resolve, reject) => {
    const bound = setTimeout(() => reject(new Error(`only ${JSON.stringify({ events, states, requests })}`)), 10_000);
    const check = (): void => {
      if (!wanted(events, states, refused)) return;
      clearTimeout(bound);
      resolve();
    };
    stream = new EventStream(
      source,
      {
        events: (some) => { events.push(...some); check(); },
        connection: (state) => { states.push(state); check(); },
        refused: (status) => { refused = status; check(); },
        restart: () => { events.splice(0); },
      },
      0,
      timeouts,
    );
    stream.start();
  });
  stream?.close();
  return { events, states, refused, requests };
}

const numbers = (events: StreamEvent[]): number[] => events.flatMap((event) => (event.seq ? [event.seq] : []));

describe("an event stream", () => {
  it("restarts if the session was restored with fewer facts", async () => {
    const result = await follow(
      (after, _, response, turn) => {
        if (turn === 1) response.end(fact(1) + fact(2) + fact(3));
        else if (after > 1) response.writeHead(400).end("{}");
        else response.end(fact(1));
      },
      (events, states) => numbers(events).join() === "1" && states.filter((state) => state === "live").length > 1,
    );
    expect(result.requests.filter((one) => one.startsWith("stream")).slice(0, 3)).toEqual(["stream 0", "stream 3", "stream 0"]);
  });

  it("continues after the last fact if it is cut in the middle of one", async () => {
    const result = await follow(
      (after, _, response) => {
        if (after === 0) {
          response.write(fact(1) + fact(2) + fact(3).slice(0, 20));
          setTimeout(() => response.destroy(), 20);
        } else response.end(fact(after + 1) + fact(after + 2));
      },
      (events) => numbers(events).length >= 6,
    );
    expect(numbers(result.events)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(result.requests.slice(0, 2)).toEqual(["stream 0", "stream 2"]);
  });

  it("does not skip a missing fact", async () => {
    const result = await follow(
      (after, _, response, turn) => response.end(turn === 1 ? fact(1) + ": \n\n" + fact(3) : fact(after + 1)),
      (events) => numbers(events).length >= 3,
    );
    expect(numbers(result.events)).toEqual([1, 2, 3]);
  });

  it("polls from the same position if streams are blocked", async () => {
    const result = await follow(
      (after, isStream, response) => {
        if (isStream) return;
        const facts = [{ type: "fact", seq: after + 1 }];
        response.end(JSON.stringify({ facts, last_seq: after + 1, has_more: false }));
      },
      (events) => numbers(events).length >= 3,
      IMPATIENT,
    );
    expect(numbers(result.events).slice(0, 3)).toEqual([1, 2, 3]);
    expect(result.requests.slice(0, 4)).toEqual(["stream 0", "stream 0", "poll 0", "poll 1"]);
    expect(result.states).toContain("polling");
  });

  it("is offline after several failures, and recovers", async () => {
    const result = await follow(
      (after, _, response, turn) => {
        if (turn < 4) response.writeHead(503).end();
        else response.end(fact(after + 1));
      },
      (events) => numbers(events).length >= 1,
    );
    expect(result.states).toContain("offline");
    expect(result.states.at(-1)).toBe("live");
  });

  it("stops if access is denied", async () => {
    const result = await follow((_, __, response) => response.writeHead(401).end(), (_, __, refused) => refused === 401);
    expect(result.requests).toHaveLength(1);
  });
});

describe("server-sent events", () => {
  it("are parsed from any chunks", () => {
    const whole = ": hello\n\nid: 7\ndata: {\"a\":\ndata: 1}\n\nretry: 100\nevent: named\ndata: x\r\n\r\ndata: y\n\n";
    for (let size = 1; size < whole.length; size += 1) {
      const reader = new SseParser();
      const result = [];
      for (let at = 0; at < whole.length; at += size) result.push(...reader.feed(whole.slice(at, at + size)));
      expect(result).toEqual([{ id: "7", name: "", data: '{"a":\n1}' }, { id: "", name: "named", data: "x" }, { id: "", name: "", data: "y" }]);
    }
  });
});
