import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { type AgentView, NOTHING_SEEN, foldAgent, retold, spoken, textOf } from "../src/transcript/agent-view";
import { wordsOf } from "../src/text/command-line";
import { pressed } from "../src/text/terminal-keys";
import { withDrawing } from "../src/transcript/drawing";
import { fold } from "../src/transcript/item-builder";
import { linkPieces } from "../src/text/links";
import { type Block, emptyView, visibleBlocks } from "../src/transcript/session-view";
import { shownRows } from "../src/components/collapsed-rows";
import { Agentapi, agentBase } from "../src/api/agentapi";
import { type Connection, Follower } from "../src/api/event-stream";
import { KeyPresses } from "../src/api/key-queue";
import type { Frame } from "../src/api/types";
import { Log, text } from "./events";

const message = (id: number, role: string, said: string): Frame => ({ type: "message_update", id, role, message: said, time: "2026-01-01T00:00:00Z" });
const status = (now: string): Frame => ({ type: "status_change", status: now, agent_type: "claude" });
const said = (view: AgentView): string[] => view.blocks.map((block) => `${block.kind} ${textOf(block)}`);

describe("the events of the agentapi wire", () => {
  const first = foldAgent(NOTHING_SEEN, [message(0, "agent", "Hello"), message(1, "user", "Hi"), message(2, "agent", ""), status("running")]);

  it("are a conversation, in which a message is replaced by its id", () => {
    expect(said(first)).toEqual(["text Hello", "user Hi", "text "]);
    const next = foldAgent(first, [message(2, "agent", "You said Hi"), status("stable")]);
    expect(said(next)).toEqual(["text Hello", "user Hi", "text You said Hi"]);
    expect(next.blocks[0]).toBe(first.blocks[0]);
    expect([first.status, next.status, next.agentType]).toEqual(["running", "stable", "claude"]);
  });

  it("are told anew with each stream: what stays is the same, what is gone goes at the end of it", () => {
    const during = foldAgent(retold(first), [message(0, "agent", "Hello")]);
    expect(said(during)).toHaveLength(3);
    const after = foldAgent(during, [status("stable")]);
    expect(said(after)).toEqual(["text Hello"]);
    expect(after.blocks[0]).toBe(first.blocks[0]);
    expect(said(foldAgent(after, [status("running")]))).toEqual(["text Hello"]);
  });

  it("have Markdown in them where the agent has no screen, with its calls as they stand", () => {
    const [told, call] = ["Look:\n\n- one", "First.\n[Tool: execute] ls *\n[Tool Status: completed]\nDone."].map((one) => spoken(foldAgent(NOTHING_SEEN, [message(0, "agent", one)]).blocks[0]!));
    expect(told).toMatchObject({ text: "Look:\n\n- one", drawn: false });
    expect(call && textOf(call)).toBe("First.\n\n````text\n[Tool: execute] ls *\n[Tool Status: completed]\n````\n\nDone.");
  });

  it("keep each problem once, and pass over what is not known", () => {
    const problem = { type: "agent_error", message: "no state", level: "warning", time: "1" };
    const view = foldAgent(foldAgent(first, [problem, { type: "new_kind" }]), [problem, { ...problem, time: "2", level: "error" }]);
    expect(view.problems.map((one) => one.level)).toEqual(["warning", "error"]);
  });
});

describe("many empty rows of a terminal", () => {
  const shown = (rows: string, cursor: number): number[] => shownRows([...rows].map((row) => row === "."), rows.length, cursor);

  it("are shown as one, but not where the cursor is", () => {
    expect(shown("a...b", 4)).toEqual([0, 1, 2, 3, 4]);
    expect(shown("a....b....c", 10)).toEqual([0, 1, 5, 6, 10]);
    expect(shown("a.........b", 5)).toEqual([0, 1, 5, 6, 10]);
    expect(shown("", 0)).toEqual([]);
  });
});

let server: Server | null = null;
let follower: Follower | null = null;
afterEach(() => {
  follower?.close();
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
    let view = NOTHING_SEEN;
    const states: Connection[] = [];
    const look = (): void => {
      if (wanted(view, states)) resolve(view);
    };
    const listener = {
      frames: (frames: Frame[]) => { view = foldAgent(view, frames); look(); },
      connection: (state: Connection) => { states.push(state); view = retold(view); look(); },
      refused: () => {},
    };
    follower = new Follower(wire.events, listener, 0, { first: 100, silence: 5000, backoff: 30, polling: 60_000 });
    follower.start();
  });
}

describe("an agent behind the agentapi wire", () => {
  const answers = (request: IncomingMessage, response: ServerResponse): boolean => {
    const found: Record<string, unknown> = {
      "/below/status": { status: "stable", agent_type: "some-new-agent", transport: "pty" },
      "/below/messages": { messages: [{ id: 0, role: "agent", content: "Hello", time: "" }] },
    };
    const body = found[request.url ?? ""];
    if (body) response.end(JSON.stringify(body));
    return body !== undefined;
  };

  it("is followed by its stream, however often that is cut", async () => {
    let turn = 0;
    const wire = await served((_, response) => {
      turn += 1;
      response.setHeader("Content-Type", "text/event-stream");
      const sent = [message(0, "agent", "Hello"), ...(turn > 1 ? [message(1, "user", "Hi")] : []), status("stable")];
      response.end(sent.map(({ type, ...data }) => `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`).join(""));
    });
    expect(said(await until(wire, (view) => view.blocks.length === 2))).toEqual(["text Hello", "user Hi"]);
  });

  it.each(["held back", "cut", "refused by a proxy"])("is asked again and again where streams are %s", async (how) => {
    const wire = await served((request, response) => {
      if (answers(request, response) || how === "held back") return;
      if (how === "cut") request.socket.destroy();
      else response.writeHead(502).end();
    });
    const view = await until(wire, (seen, states) => seen.status === "stable" && states.filter((one) => one === "polling").length > 1);
    expect(said(view)).toEqual(["text Hello"]);
    expect(view.agentType).toBe("some-new-agent");
  });

  it("says why it did not take a message", async () => {
    const wire = await served((_, response) => {
      response.writeHead(500).end(JSON.stringify({ detail: "unexpected error occurred", errors: [{ message: "it is busy" }] }));
    });
    await expect(wire.send("Hi", "user")).rejects.toThrow("unexpected error occurred: it is busy");
  });

  it("is found one folder above the page, or where the address says", () => {
    const root = new URL("https://host/@me/apps/ccw/chat/");
    expect(agentBase(root, "").href).toBe("https://host/@me/apps/ccw/");
    expect(agentBase(root, "?url=http://localhost:3284").href).toBe("http://localhost:3284/");
    expect(agentBase(root, "?url=/other/agent").href).toBe("https://host/other/agent/");
  });
});

describe("keys", () => {
  it("go together and in their order, one request after the other", async () => {
    const sent: string[] = [];
    let release = (): void => {};
    const keys = new KeyPresses(
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

  it("behind some that were lost are not sent", async () => {
    const failures: unknown[] = [];
    const keys = new KeyPresses(
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
  ])("%s %o is what a keyboard sends", (key, held, bytes) => {
    expect(pressed({ ...none, ...held, key })?.bytes).toBe(bytes);
  });

  it.each([["c", { metaKey: true }], ["v", { ctrlKey: true }], ["Shift", { shiftKey: true }], ["Unidentified", {}], ["F5", {}]])("%s %o is the browser's", (key, held) => {
    expect(pressed({ ...none, ...held, key })).toBeNull();
  });
});

describe("what a terminal agent draws", () => {
  const log = new Log();
  const begun = [
    log.record("session_started", { cwd: "/project", version: "1", driver: "terminal" }),
    log.entry("assistant_message", { call: "", stop_reason: "end", content: [text("Hello")] }),
    log.record("run_started", { model: "terminal/claude", cwd: "/project", version: "1" }),
    log.entry("user_message", { content: [text("Hi")], source: "terminal" }),
  ];
  const answer = log.entry("assistant_message", { call: "", stop_reason: "end", content: [text("You said Hi")] });
  const shown = (facts: Frame[], live?: unknown): string[] =>
    withDrawing(visibleBlocks(fold(emptyView("ses_1"), facts)), live).map((block: Block) => (block.kind === "text" ? `${block.drawn} ${block.writing} ${block.text}` : block.kind));

  it("stands behind what it was told, until it is a fact", () => {
    expect(shown(begun)).toEqual(["true false Hello", "user"]);
    expect(shown(begun, { id: 2, text: "You sa" })).toEqual(["true false Hello", "user", "true true You sa"]);
    expect(shown([...begun, answer])).toEqual(["true false Hello", "user", "true false You said Hi"]);
  });

  it("goes on with what it said last, if it was told nothing since", () => {
    expect(shown([...begun, answer], { id: 2, text: "You said Hi. More" })).toEqual(["true false Hello", "user", "true true You said Hi. More"]);
  });

  it("has links where there are addresses", () => {
    const links = (said: string): string[] => linkPieces(said).flatMap((one) => (one.href ? [one.href] : []));
    expect(links("See https://a.example/x_(y), or (http://b.example/z).")).toEqual(["https://a.example/x_(y)", "http://b.example/z"]);
    expect(links("│ https://a.example │ no://thing https:// javascript:alert(1)")).toEqual(["https://a.example"]);
    const whole = "a https://b.example/ü?q=1#x, c\nhttps://d.example";
    expect(linkPieces(whole).map((one) => one.text).join("")).toBe(whole);
  });
});

describe("a command line", () => {
  it.each([
    ["claude --continue", ["claude", "--continue"]],
    ["  codex  -c 'model = \"x y\"' ", ["codex", "-c", 'model = "x y"']],
    ['"my agent" --say "a \\"b\\"" c\\ d \'\'', ["my agent", "--say", 'a "b"', "c d", ""]],
    ["agent it's", ["agent", "it's"]],
    ["", []],
  ])("%s is words", (line, words) => {
    expect(wordsOf(line)).toEqual(words);
  });
});
