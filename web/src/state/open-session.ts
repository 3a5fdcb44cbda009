/** The session that is looked at: its view, kept live, and what can be asked of it. */

import { computed, signal } from "@preact/signals";
import { withDrawing } from "../transcript/drawing";
import { fold } from "../transcript/item-builder";
import type { AskedView, SessionView } from "../transcript/session-view";
import { Wishes, type Wish } from "./ui-requests";
import { TAKEN_BACK, asPrompt, childIn, childrenToRead, emptyView, openQuestions, visibleBlocks, withChild } from "../transcript/session-view";
import { Problem, api } from "../api/client";
import { type Connection, Follower } from "../api/event-stream";
import { sessionSource } from "../api/session-source";
import type { Command, ContentBlock, Frame, PlainBlock, SessionShown, ToolDress, WaitingRequest } from "../api/types";
import { access, announcement, attempt, mayAct, toast } from "./app";
import { composerText, focusComposer } from "./prompt-draft";
import { followWhileSeen } from "./visible-stream";
import { goTo } from "./route";
import { refreshList } from "./session-list";

const READ_OUT = 1500;
/** Requests that are shown until they are settled. */
const LISTED = new Set(["prompt", "steer", "run_command"]);
/** Seconds that a model may take to be set. */
const PATIENCE = 15;
/** Frames after which what the server alone knows is looked at again. The process of a run may have gone before one says `caught_up`. */
const TELLING = new Set(["caught_up", "run_started", "run_ended", "run_waiting", "request_refused", "prompts_held", "prompts_released", "settings_changed", "compacted", "leaf_moved", "child_started", "child_ended"]);

/** Also that an agent was started or has ended; not each key that was pressed. */
const isTelling = (frame: Frame): boolean => TELLING.has(frame.type) || /^(?:terminal|agent)\.(?:started|ended)$/.test(frame["decision"] ?? "");

export class OpenSession {
  readonly view = signal<SessionView>(emptyView(""));
  readonly connection = signal<Connection>("connecting");
  readonly shown = signal<SessionShown | null>(null);
  readonly sent = signal<WaitingRequest[]>([]);
  readonly commands = signal<Command[]>([]);
  /** How extensions want calls of their tools to be shown, by the tool's name. */
  readonly dresses = signal<ReadonlyMap<string, ToolDress>>(new Map());
  readonly missing = signal(false);
  readonly givenBack = signal<PlainBlock[] | null>(null);
  /** Steers that were said again, or given back. */
  private readonly late = signal<ReadonlySet<string>>(new Set());
  private readonly refused = new Set<string>();
  private readonly askedElsewhere = signal<AskedView[]>([]);
  private readonly answering = signal<ReadonlySet<string>>(new Set());

  readonly blocks = computed(() => withDrawing(visibleBlocks(this.view.value, this.late.value), this.view.value.live.get("terminal:message")));
  readonly questions = computed<AskedView[]>(() => {
    const view = this.view.value;
    const here = openQuestions(view);
    const known = new Set(here.map((one) => one.id));
    const others = this.askedElsewhere.value.filter((one) => !known.has(one.id) && one.session !== view.id);
    return [...here, ...others].filter((one) => !this.answering.value.has(one.id));
  });
  /** The process that drove the run is gone; the run is not, and no fact says so. */
  readonly isCut = computed(() => {
    const { run } = this.view.value;
    const shown = this.shown.value?.run;
    return run !== null && shown?.status === "cut" && shown.id === run.id;
  });
  /** Prompts and steers that wait to be taken up, and commands that run. */
  readonly waiting = computed(() => this.sent.value.filter((one) => !this.view.value.settled.has(one.id)));

  private readonly follower: Follower;
  private queue: Frame[] = [];
  private readonly wishes = new Wishes();
  private wished: Wish[] = [];
  private scheduled = false;
  private readonly reading = new Set<string>();
  private readonly unread = new Set<string>();
  private unfollow = (): void => {};
  private lookTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly id: string) {
    this.view.value = emptyView(id);
    this.follower = new Follower(sessionSource(id), {
      frames: (frames) => this.take(frames),
      connection: (state) => {
        this.connection.value = state;
        if (state === "live") this.wishes.begin();
      },
      refused: (status) => {
        if (status === 404) this.missing.value = true;
        else access.value = "login";
      },
      anew: () => {
        this.queue = [];
        this.view.value = emptyView(id);
      },
    });
  }

  open(): void {
    this.unfollow = followWhileSeen(this.follower);
    void this.look();
    void this.loadCommands();
    void this.loadDresses();
  }

  close(): void {
    this.unfollow();
    clearTimeout(this.lookTimer);
  }

  private take(frames: Frame[]): void {
    for (const frame of frames) this.queue.push(frame);
    this.wished.push(...this.wishes.take(frames));
    if (this.scheduled) return;
    this.scheduled = true;
    if (document.hidden) setTimeout(this.flush, 250);
    else requestAnimationFrame(this.flush);
  }

  private readonly flush = (): void => {
    this.scheduled = false;
    const frames = this.queue;
    this.queue = [];
    const before = this.view.value;
    this.view.value = fold(before, frames);
    if (this.view.value.caughtUp) {
      for (const child of childrenToRead(this.view.value)) if (!this.unread.has(child)) void this.readChild(child);
    }
    for (const wish of this.wished.splice(0)) this.fulfil(wish);
    if (!before.caughtUp) return;
    this.announce(frames);
    this.seeRefusals(frames);
    if (this.isCut.value || frames.some(isTelling)) this.lookSoon(); // somebody may go on with a run that was cut
  };

  private fulfil(wish: Wish): void {
    if (wish.kind === "switch" && wish.session) {
      void refreshList();
      goTo(wish.session);
    } else if (wish.kind === "editor") {
      composerText.value = wish.text;
      focusComposer();
    }
  }

  private announce(frames: Frame[]): void {
    for (const frame of frames) {
      if (frame.type === "run_ended" && frame["status"] !== "completed") announcement.value = `The run has ended: ${frame["status"]}.`;
      else if (frame.type === "assistant_message" && !frame["suppressed"]) this.readOut(frame);
      else if (frame.type === "question_asked") announcement.value = `A question: ${frame["question"].text}`;
    }
  }

  private readOut(answer: Frame): void {
    const blocks = (answer["shown"] ?? answer["content"]) as ContentBlock[];
    const text = blocks.map((block) => (block.type === "text" ? block.text : "")).join(" ").trim();
    if (text) announcement.value = text.slice(0, READ_OUT);
  }

  private seeRefusals(frames: Frame[]): void {
    for (const frame of frames) {
      if (frame.type !== "request_refused") continue;
      this.answering.value = new Set(); // if it was an answer, its question is still open
      if (frame["reason"] === TAKEN_BACK) continue;
      this.refused.add(frame["request"]);
      const mine = this.sent.value.find((one) => one.id === frame["request"]);
      if (mine?.type === "steer" && mine.by === "web") this.sayLate(mine.id, mine.content ?? []);
    }
  }

  /** A steer that came too late is the next prompt; whoever stopped the run gets it back into the line. */
  private sayLate(steer: string, content: PlainBlock[]): void {
    if (this.late.value.has(steer) || !mayAct()) return;
    this.late.value = new Set([...this.late.value, steer]);
    const giveBack = (): void => {
      this.givenBack.value = [...(this.givenBack.value ?? []), ...content];
    };
    if (this.view.value.held) return giveBack();
    void this.request({ type: "prompt", id: asPrompt(steer), content }).then((sent) => sent || giveBack());
  }

  private lookSoon(): void {
    clearTimeout(this.lookTimer);
    this.lookTimer = setTimeout(() => void this.look(), 150);
  }

  async look(): Promise<void> {
    try {
      const shown = await api.show(this.id);
      this.shown.value = shown;
      if (shown.status === "cut") void refreshList(); // no fact says so
      this.askedElsewhere.value = (shown.questions ?? []).map((one) => ({
        session: one.session,
        id: one.asked.id,
        question: one.asked.question,
        call: one.asked.call ?? "",
        askedBy: one.asked.asked_by ?? "permission",
        agent: one.agent ?? "",
      }));
      const { requests } = await api.waiting(this.id);
      const typed = new Map(this.sent.value.map((one) => [one.id, one.content]));
      this.sent.value = requests.flatMap((one) => {
        if (!LISTED.has(one.type)) return [];
        const content = typed.get(one.id) ?? one.content; // what was typed here, not what the server made of it
        return [content ? { ...one, content } : one];
      });
    } catch (error) {
      if (error instanceof Problem && error.status === 404 && !this.shown.value) this.missing.value = true;
    }
  }

  async loadCommands(): Promise<void> {
    try {
      this.commands.value = (await api.commands(this.id)).commands;
    } catch {
      this.commands.value = []; // completion is a comfort
    }
  }

  async loadDresses(): Promise<void> {
    try {
      this.dresses.value = new Map((await api.renderers(this.id)).tools.map((one) => [one.tool, one]));
    } catch {
      this.dresses.value = new Map(); // then calls look as everywhere
    }
  }

  /** Another model goes on where one has failed. */
  async goOnWith(model: string): Promise<void> {
    await attempt(async () => {
      const settled = await api.request(this.id, { type: "set_model", model }, PATIENCE);
      if (settled.state === "refused") return toast(String(settled.fact?.["reason"] ?? "That was refused."), "error");
      await this.request({ type: "continue" });
    });
  }

  /** Reads a child that was joined late, or is looked at again, from its own log. */
  async readChild(child: string): Promise<void> {
    if (this.reading.has(child)) return;
    this.reading.add(child);
    try {
      let view = emptyView(child);
      for (let more = true; more; ) {
        const page = await api.facts(child, view.seq);
        view = fold(view, page.facts);
        const seen = childIn(this.view.value, child)?.seq ?? 0;
        more = page.facts.length > 0 && (page.has_more || view.seq < seen);
      }
      this.view.value = withChild(this.view.value, view);
    } catch {
      this.unread.add(child); // it is tried again when somebody opens it
    } finally {
      this.reading.delete(child);
    }
  }

  request(body: { type: string } & Record<string, unknown>): Promise<unknown> {
    return attempt(async () => {
      const settled = await api.request(this.id, body);
      if (body.type === "prompt" || body.type === "steer") {
        const one = { id: settled.id, type: body.type, content: body["content"] as PlainBlock[], by: "web" };
        if (one.type === "steer" && (settled.state === "refused" || this.refused.has(one.id))) {
          this.sayLate(one.id, one.content);
          return settled;
        }
        if (settled.state === "waiting") {
          this.sent.value = [...this.sent.value.filter((other) => other.id !== one.id), one];
          this.lookSoon(); // it may have become a command
        }
      }
      if (settled.state === "refused") toast(String(settled.fact?.["reason"] ?? "That was refused."), "error");
      void refreshList();
      return settled;
    });
  }

  async takeBack(one: WaitingRequest): Promise<boolean> {
    const done = await attempt(async () => {
      await api.takeBack(this.id, one.id);
      return true;
    });
    if (done) this.sent.value = this.sent.value.filter((other) => other.id !== one.id);
    return Boolean(done);
  }

  async answer(asked: AskedView, answer: unknown, declined = false): Promise<void> {
    this.answering.value = new Set([...this.answering.value, asked.id]);
    const body = declined ? { declined: true } : { answer };
    try {
      await api.request(asked.session, { type: "answer", question: asked.id, ...body });
      void refreshList();
      this.lookSoon();
    } catch (error) {
      this.answering.value = new Set([...this.answering.value].filter((one) => one !== asked.id));
      toast(error instanceof Error ? error.message : String(error), "error");
    }
  }
}

/** Whether the agent is another vendor's. */
export const isDriven = (session: OpenSession): boolean => session.view.value.driver !== "agent";

export const current = signal<OpenSession | null>(null);
