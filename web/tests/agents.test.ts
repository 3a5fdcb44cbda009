import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Agentapi, agentBase } from "../src/api/agentapi";
import { type Connection, EventStream } from "../src/api/event-stream";
import { KeyQueue } from "../src/api/key-queue";
import type { StreamEvent } from "../src/api/types";
import { visibleRows } from "../src/components/collapsed-rows";
import { splitLinks } from "../src/text/links";
import { splitCommandLine } from "../src/text/prompt";
import { terminalKey } from "../src/text/terminal-keys";
import { type AgentView, EMPTY_AGENT, applyToAgent, asMarkdown, restarted, textOf } from "../src/transcript/agent-view";
import { withLiveMessage } from "../src/transcript/answer-items";
import { apply } from "../src/transcript/item-builder";
import { emptyView, visibleItems } from "../src/transcript/session-view";
import { Log, text } from "./events";

vi.stubGlobal("location", { href: "http://box.example/", origin: "http://box.example" });

const message = (id: number, role: string, content: string): StreamEvent => ({ type: "message_update", id, role, message: content, time: "2026-01-01T00:00:00Z" });
const status = (now: string): StreamEvent => ({ type: "status_change", status: now, agent_type: "claude" });
const texts = (view: AgentView): string[] => view.items.map((item) => `${item.kind} ${textOf(item)}`);

describe("the events of an agentapi server", () => {
  const first = applyToAgent(EMPTY_AGENT, [message(0, "agent", "Hello"), message(1, "user", "Hi"), message(2, "agent", ""), status("running")]);

  it("make a conversation; a message replaces the one with its id", () => {
    expect(texts(first)).toEqual(["text Hello", "user Hi", "text "]);
    const next = applyToAgent(first, [message(2, "agent", "You said Hi"), status("stable")]);
    expect(texts(next)).toEqual(["text Hello", "user Hi", "text You said Hi"]);
    expect(next.items[0]).toBe(first.items[0]);
    expect([first.status, next.status, next.agentType]).toEqual(["running", "stable", "claude"]);
  });

  it("start from the first message with each stream; deleted messages go once it has caught up", () => {
    const during = applyToAgent(restarted(first), [message(0, "agent", "Hello")]);
    expect(texts(during)).toHaveLength(3);
    const after = applyToAgent(during, [status("stable")]);
    expect(texts(after)).toEqual(["text Hello"]);
    expect(after.items[0]).toBe(first.items[0]);
    expect(texts(applyToAgent(after, [status("running")]))).toEqual(["text Hello"]);
  });

  it("contain Markdown if the agent has no screen, with its calls as code", () => {
    const [told, call] = ["Look:\n\n- one", "First.\n[Tool: execute] ls *\n[Tool Status: completed]\nDone."].map((one) => asMarkdown(applyToAgent(EMPTY_AGENT, [message(0, "agent", one)]).items[0]!));
    expect(told).toMatchObject({ text: "Look:\n\n- one", drawn: false });
    expect(call && textOf(call)).toBe("First.\n\n````text\n[Tool: execute] ls *\n[Tool Status: completed]\n````\n\nDone.");
  });

  it("report each problem once; unknown events are ignored", () => {
    const problem = { type: "agent_error", message: "no state", level: "warning", time: "1" };
    const view = applyToAgent(applyToAgent(first, [problem, { type: "new_kind" }]), [problem, { ...problem, time: "2", level: "error" }]);
    expect(view.problems.map((one) => one.level)).toEqual(["warning", "error"]);
  });
});

describe("many empty rows of a terminal", () => {
  const shown = (rows: string, cursor: number): number[] => visibleRows([...rows].map((row) => row === "."), rows.length, cursor);

  it("collapse into one, except at the cursor", () => {
    expect(shown("a...b", 4)).toEqual([0, 1, 2, 3, 4]);
    expect(shown("a....b....c", 10)).toEqual([0, 1, 5, 6, 10]);
    expect(shown("a.........b", 5)).toEqual([0, 1, 5, 6, 10]);
    expect(shown("", 0)).toEqual([]);
  });
});

let server: Server | null = null;
let stream: EventStream | null = null;
afterEach(() => {
  stream?.close();
  server?.closeAllConnections();
  server?.close();
});

async function served(handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<Agentapi> {
  server = createServer(handler);
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  return new Agentapi(new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/below/`));
}

function until(wire: Agentapi, wanted: (view: AgentView, states: Connection[]) => boolean): Promise<AgentView> {
  return new Promise((resolve) => {
    let view = EMPTY_AGENT;
    const states: Connection[] = [];
    const check = (): void => {
      if (wanted(view, states)) resolve(view);
    };
    const listener = {
      events: (events: StreamEvent[]) => { view = applyToAgent(view, events); check(); },
      connection: (state: Connection) => { states.push(state); view = restarted(view); check(); },
      refused: () => {},
    };
    stream = new EventStream(wire.events, listener, 0, { first: 100, silence: 5000, backoff: 30, polling: 60_000 });
    stream.start();
  });
}

describe("an agent behind an agentapi server", () => {
  const answers = (request: IncomingMessage, response: ServerResponse): boolean => {
    const found: Record<string, unknown> = {
      "/below/status": { status: "stable", agent_type: "some-new-agent", transport: "pty" },
      "/below/messages": { messages: [{ id: 0, role: "agent", content: "Hello", time: "" }] },
    };
    const body = found[request.url ?? ""];
    if (body) response.end(JSON.stringify(body));
    return body !== undefined;
  };

  it("is followed by its stream, which reconnects when it is cut", async () => {
    let turn = 0;
    const wire = await served((_, response) => {
      turn += 1;
      response.setHeader("Content-Type", "text/event-stream");
      const sent = [message(0, "agent", "Hello"), ...(turn > 1 ? [message(1, "user", "Hi")] : []), status("stable")];
      response.end(sent.map(({ type, ...data }) => `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`).join(""));
    });
    expect(texts(await until(wire, (view) => view.items.length === 2))).toEqual(["text Hello", "user Hi"]);
  });

  it.each(["held back", "cut", "refused by a proxy"])("is polled if streams are %s", async (how) => {
    const wire = await served((request, response) => {
      if (answers(request, response) || how === "held back") return;
      if (how === "cut") request.socket.destroy();
      else response.writeHead(502).end();
    });
    const view = await until(wire, (seen, states) => seen.status === "stable" && states.filter((one) => one === "polling").length > 1);
    expect(texts(view)).toEqual(["text Hello"]);
    expect(view.agentType).toBe("some-new-agent");
  });

  it("reports why it refused a message", async () => {
    const wire = await served((_, response) => {
      response.writeHead(500).end(JSON.stringify({ detail: "unexpected error occurred", errors: [{ message: "it is busy" }] }));
    });
    await expect(wire.send("Hi", "user")).rejects.toThrow("unexpected error occurred: it is busy");
  });

  it("is one folder above the page, or at the url of the query", () => {
    const root = new URL("https://host/@me/apps/ccw/chat/");
    expect(agentBase(root, "").href).toBe("https://host/@me/apps/ccw/");
    expect(agentBase(root, "?url=http://localhost:3284").href).toBe("http://localhost:3284/");
    expect(agentBase(root, "?url=/other/agent").href).toBe("https://host/other/agent/");
  });
});

describe("keys", () => {
  it("are sent in order, several in one request", async () => {
    const sent: string[] = [];
    let release = (): void => {};
    const keys = new KeyQueue(
      (some) => {
        sent.push(some);
        return new Promise<void>((resolve) => { release = resolve; });
      },
      () => {},
    );
    keys.press("a");
    keys.press("b");
    await expect.poll(() => sent).toEqual(["ab"]);
    keys.press("c");
    keys.press("d");
    release();
    await expect.poll(() => sent).toEqual(["ab", "cd"]);
    release();
    await new Promise((resolve) => setTimeout(resolve));
    keys.press("e");
    await expect.poll(() => sent).toEqual(["ab", "cd", "e"]);
  });

  it("after lost ones are not sent", async () => {
    const failures: unknown[] = [];
    const keys = new KeyQueue(
      () => { keys.press("y"); return Promise.reject(new Error("gone")); },
      (error) => failures.push(error),
    );
    keys.press("x");
    await expect.poll(() => failures).toHaveLength(1);
  });

  const none = { ctrlKey: false, altKey: false, metaKey: false, shiftKey: false };
  it.each([
    ["ArrowUp", {}, "\x1b[A"],
    ["Escape", {}, "\x1b"],
    ["Tab", { shiftKey: true }, "\x1b[Z"],
    ["Enter", {}, "\r"],
    ["Backspace", {}, "\x7f"],
    ["PageDown", {}, "\x1b[6~"],
    ["c", { ctrlKey: true }, "\x03"],
    ["D", { ctrlKey: true }, "\x04"],
    ["x", { altKey: true }, "\x1bx"],
    ["ü", {}, "ü"],
    ["🐴", {}, "🐴"],
    ["@", { ctrlKey: true, altKey: true }, "@"],
  ])("%s %o sends the bytes of a keyboard", (key, held, bytes) => {
    expect(terminalKey({ ...none, ...held, key })?.bytes).toBe(bytes);
  });

  it.each([["c", { metaKey: true }], ["v", { ctrlKey: true }], ["Shift", { shiftKey: true }], ["Unidentified", {}], ["F5", {}]])("%s %o belongs to the browser", (key, held) => {
    expect(terminalKey({ ...none, ...held, key })).toBeNull();
  });
});

describe("the live message of a terminal agent", () => {
  const log = new Log();
  const begun = [
    log.record("session_started", { cwd: "/project", version: "1", driver: "terminal" }),
    log.entry("assistant_message", { call: "", stop_reason: "end", content: [text("Hello")] }),
    log.record("run_started", { model: "terminal/claude", cwd: "/project", version: "1" }),
    log.entry("user_message", { content: [text("Hi")], source: "terminal" }),
  ];
  const answer = log.entry("assistant_message", { call: "", stop_reason: "end", content: [text("You said Hi")] });
  const shown = (facts: StreamEvent[], live?: unknown): string[] =>
    withLiveMessage(visibleItems(apply(emptyView("ses_1"), facts)), live).map((item) => (item.kind === "text" ? `${item.drawn} ${!item.complete} ${item.text}` : item.kind));

  it("follows the user's message until it is a fact", () => {
    expect(shown(begun)).toEqual(["true false Hello", "user"]);
    expect(shown(begun, { id: 2, text: "You sa" })).toEqual(["true false Hello", "user", "true true You sa"]);
    expect(shown([...begun, answer])).toEqual(["true false Hello", "user", "true false You said Hi"]);
  });

  it("continues the last message if the user has sent none since", () => {
    expect(shown([...begun, answer], { id: 2, text: "You said Hi. More" })).toEqual(["true false Hello", "user", "true true You said Hi. More"]);
  });

  it("has links", () => {
    const links = (text: string): string[] => splitLinks(text).flatMap((one) => (one.href ? [one.href] : []));
    expect(links("See https://a.example/x_(y), or (http://b.example/z).")).toEqual(["https://a.example/x_(y)", "http://b.example/z"]);
    expect(links("│ https://a.example │ no://thing https:// javascript:alert(1)")).toEqual(["https://a.example"]);
    const whole = "a https://b.example/ü?q=1#x, c\nhttps://d.example";
    expect(splitLinks(whole).map((one) => one.text).join("")).toBe(whole);
  });
});

describe("a command line", () => {
  it.each([
    ["claude --continue", ["claude", "--continue"]],
    ["  codex  -c 'model = \"x y\"' ", ["codex", "-c", 'model = "x y"']],
    ['"my agent" --say "a \\"b\\"" c\\ d \'\'', ["my agent", "--say", 'a "b"', "c d", ""]],
    ["agent it's", ["agent", "it's"]],
    ["", []],
  ])("%s is split into words", (line, words) => {
    expect(splitCommandLine(line)).toEqual(words);
  });
});
