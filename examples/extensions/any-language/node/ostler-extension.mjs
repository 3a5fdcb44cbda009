// The Ostler extension protocol for Node, without dependencies.
//
// Copy this file beside your extension. The protocol itself is in docs/extension-protocol.md.
//
//     import { Extension, block } from "./ostler-extension.mjs";
//
//     const extension = new Extension("careful");
//     extension.intercept("tool_call", (event) => event.tool_name === "bash" && block("no commands today"));
//     extension.run();
//
// Handlers may be async. Events, intercepts and keys are handled in order, one at a time. Output of
// `console.log` goes to the log, not into the protocol.

import { createInterface } from "node:readline";

/** The answer of an intercept: refuse. */
export const block = (reason = "") => ({ block: true, reason });
/** The answer to `tool_call`: run it with these arguments. */
export const rewrite = (args) => ({ modified_args: args });
/** The answer to `assistant_message`: show this text. */
export const replace = (text) => ({ replace_text: text });
/** The answer of a command: send this prompt. */
export const prompt = (text) => ({ action: "prompt", prompt: text });
/** The answer of a command: insert this text into the editor. */
export const insert = (text) => ({ action: "insert", insert: text });
/** The answer of a command: open a panel. */
export const panel = (id, title, lines, footer = "") => ({
  action: "open_panel",
  open_panel: { id, title, lines, footer },
});

export class Extension {
  constructor(name, version = "") {
    this.name = name;
    this.version = version;
    /** The `hello_ack` frame. */
    this.host = {};
    this.isRunning = false;
    this.registered = [];
    this.tools = new Map();
    this.commands = new Map();
    this.intercepts = new Map();
    this.observers = new Map();
    this.keyHandler = () => {};
    this.calls = new Map();
    this.answers = new Map();
    this.lastId = 0;
    this.ordered = Promise.resolve();
  }

  // --- registrations ---------------------------------------------------------------------------

  /** `run(args, call)` returns a text or a list of blocks. The model gets its exceptions. */
  tool(name, description, schema, run, options = {}) {
    this.tools.set(name, run);
    this.#register({ type: "register_tool", name, description, schema, ...options });
  }

  /** `run(args, session)` returns a text, `prompt(…)`, `insert(…)` or `panel(…)`. */
  command(name, description, run) {
    this.commands.set(name, run);
    this.#register({ type: "register_command", name, description });
  }

  /** `judge(event)` returns nothing, `block(…)`, `rewrite(…)` or `replace(…)`. */
  intercept(event, judge, { guard = true } = {}) {
    this.intercepts.set(event, judge);
    this.#register({ type: "subscribe", intercept: [event], guard });
  }

  on(event, observe) {
    this.observers.set(event, [...(this.observers.get(event) ?? []), observe]);
    this.#register({ type: "subscribe", events: [event] });
  }

  /** Gets `panel_key`, `panel_resize` and `panel_close`. */
  onKey(handle) {
    this.keyHandler = handle;
  }

  #register(frame) {
    if (this.isRunning) this.send(frame);
    else this.registered.push(frame);
  }

  // --- messages -----------------------------------------------------------------------------

  notify(message, level = "info", session = "") {
    this.send({ type: "notify", message, level, session });
  }

  log(message, level = "info") {
    this.send({ type: "log", message, level });
  }

  renderPanel(panel_id, lines, title = "", footer = "") {
    this.send({ type: "panel_render", panel_id, title, lines, footer });
  }

  closePanel(panel_id) {
    this.send({ type: "panel_close", panel_id });
  }

  // --- state of a session --------------------------------------------------------------

  async get(key, fallback = null, session = "") {
    return (await this.#ask({ type: "state_get", key, session })).value ?? fallback;
  }

  /** Resolves when the value is stored. */
  async set(key, value, session = "") {
    await this.#ask({ type: "state_set", key, value, session });
  }

  async delete(key, session = "") {
    await this.#ask({ type: "state_delete", key, session });
  }

  async keys(session = "") {
    return (await this.#ask({ type: "state_list", session })).keys;
  }

  #ask(frame) {
    const id = `${this.name}-${++this.lastId}`;
    return new Promise((resolve, reject) => {
      this.answers.set(id, { resolve, reject });
      this.send({ ...frame, id });
    });
  }

  // --- the protocol -----------------------------------------------------------------------------

  send(frame) {
    process.stdout.write(JSON.stringify(frame) + "\n");
  }

  /** Runs until Ostler sends `shutdown` or ends. */
  run() {
    this.isRunning = true;
    for (const way of ["log", "info", "debug"]) console[way] = console.error;
    process.stdout.on("error", () => process.exit(0));
    this.send({ type: "hello", name: this.name, version: this.version, capabilities: ["ready"] });
    this.registered.forEach((frame) => this.send(frame));
    this.send({ type: "ready" });
    const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
    lines.on("line", (line) => this.#take(JSON.parse(line)));
    lines.on("close", () => process.exit(0));
  }

  #take(frame) {
    switch (frame.type) {
      case "hello_ack":
        this.host = frame;
        break;
      case "tool_call":
        this.#runTool(frame);
        break;
      case "tool_cancel":
        this.calls.get(frame.id)?.abort(frame.reason);
        break;
      case "command_invoked":
        this.#runCommand(frame);
        break;
      case "event":
        this.#inOrder(() => this.#observe(frame));
        break;
      case "event_intercept":
        this.#inOrder(() => this.#intercept(frame));
        break;
      case "panel_key":
      case "panel_resize":
      case "panel_close":
        this.#inOrder(() => this.keyHandler(frame));
        break;
      case "state_result": {
        const answer = this.answers.get(frame.id);
        this.answers.delete(frame.id);
        if (frame.error) answer?.reject(new Error(frame.error));
        else answer?.resolve(frame);
        break;
      }
      case "gap":
      case "problem":
        console.error(frame);
        break;
      case "shutdown":
        process.stdout.write('{"type":"shutdown_ack"}\n', () => process.exit(0));
    }
  }

  #inOrder(work) {
    this.ordered = this.ordered.then(work).catch((error) => console.error(error));
  }

  async #observe(frame) {
    for (const observe of this.observers.get(frame.event) ?? []) await observe(frame);
  }

  async #intercept(frame) {
    let answer;
    try {
      answer = (await this.intercepts.get(frame.event)(frame)) || {};
    } catch (error) {
      console.error(error);
      answer = block(`the guard failed: ${error}`);
    }
    this.send({ type: "event_intercept_response", id: frame.id, ...answer });
  }

  async #runTool(frame) {
    const abort = new AbortController();
    this.calls.set(frame.id, abort);
    const call = {
      session: frame.session,
      call: frame.call,
      signal: abort.signal,
      output: (text, stream = "out") => this.send({ type: "tool_output", id: frame.id, text, stream }),
    };
    let content;
    let is_error = false;
    try {
      content = await this.tools.get(frame.name)(frame.args, call);
    } catch (error) {
      console.error(error);
      content = String(error);
      is_error = true;
    }
    this.calls.delete(frame.id);
    if (!Array.isArray(content)) content = [{ type: "text", text: String(content) }];
    this.send({ type: "tool_result", id: frame.id, content, is_error });
  }

  async #runCommand(frame) {
    let answer;
    try {
      answer = (await this.commands.get(frame.name)(frame.args, frame.session)) ?? { action: "noop" };
    } catch (error) {
      console.error(error);
      answer = { error: String(error) };
    }
    if (typeof answer !== "object") answer = { action: "display", display: String(answer) };
    this.send({ type: "command_response", id: frame.id, ...answer });
  }
}
