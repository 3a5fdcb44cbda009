/** The session that the page shows: its view, kept live, and the requests to it. */

import { computed, signal } from "@preact/signals";
import { ApiError, api, sessionSource } from "../api/client";
import { type Connection, EventStream } from "../api/event-stream";
import type { Command, ContentBlock, OpenQuestion, PlainBlock, SessionDetails, StreamEvent, ToolAppearance, WaitingRequest } from "../api/types";
import { withLiveMessage } from "../transcript/answer-items";
import { apply } from "../transcript/item-builder";
import { plainTextOf } from "../transcript/items";
import { type SessionView, TAKEN_BACK, childrenToRead, emptyView, findChild, lateSteerId, openQuestions, visibleItems, withChild } from "../transcript/session-view";
import { access, announcement, attempt, canAct, toast } from "./app";
import { composerText, focusComposer } from "./prompt-draft";
import { openSession } from "./route";
import { refreshList } from "./session-list";
import { type UiRequest, UiRequests } from "./ui-requests";
import { openVisibleStream } from "./visible-stream";

/** Characters of an answer that a screen reader reads out. */
const MAX_ANNOUNCEMENT = 1500;
/** The requests that the queue shows until they are handled. */
const QUEUED = new Set(["prompt", "steer", "run_command"]);
/** Seconds to wait for a change of the model. */
const SET_MODEL_TIMEOUT = 15;
/** Events after which the details change that only the server knows. The process of a run may end before `caught_up`. */
const CHANGES_DETAILS = new Set(["caught_up", "run_started", "run_ended", "run_waiting", "request_refused", "prompts_held", "prompts_released", "settings_changed", "compacted", "leaf_moved", "child_started", "child_ended"]);

/** Also the start and the end of an agent, but not each key. */
const changesDetails = (event: StreamEvent): boolean => CHANGES_DETAILS.has(event.type) || /^(?:terminal|agent)\.(?:started|ended)$/.test(event["decision"] ?? "");

export class OpenSession {
  readonly view = signal<SessionView>(emptyView(""));
  readonly connection = signal<Connection>("connecting");
  /** What the server knows beyond the events. */
  readonly details = signal<SessionDetails | null>(null);
  readonly commands = signal<Command[]>([]);
  /** How extensions present the calls of their tools, by the tool's name. */
  readonly appearances = signal<ReadonlyMap<string, ToolAppearance>>(new Map());
  readonly missing = signal(false);
  /** A steer that came too late, to be put back into the composer. */
  readonly returnedPrompt = signal<PlainBlock[] | null>(null);
  private readonly requests = signal<WaitingRequest[]>([]);
  /** Steers that were sent again as prompts, or returned. */
  private readonly resent = signal<ReadonlySet<string>>(new Set());
  private readonly refused = new Set<string>();
  private readonly questionsElsewhere = signal<OpenQuestion[]>([]);
  private readonly answering = signal<ReadonlySet<string>>(new Set());

  readonly items = computed(() => withLiveMessage(visibleItems(this.view.value, this.resent.value), this.view.value.liveValues.get("terminal:message")));
  readonly questions = computed<OpenQuestion[]>(() => {
    const view = this.view.value;
    const here = openQuestions(view);
    const ids = new Set(here.map((question) => question.asked.id));
    const elsewhere = this.questionsElsewhere.value.filter((question) => !ids.has(question.asked.id) && question.session !== view.id);
    return [...here, ...elsewhere].filter((question) => !this.answering.value.has(question.asked.id));
  });
  /** The process of the run is gone, but the run has not ended. No fact says so. */
  readonly isInterrupted = computed(() => {
    const { run } = this.view.value;
    const status = this.details.value?.run;
    return run !== null && status?.status === "cut" && status.id === run.id;
  });
  /** Prompts and steers in the queue, and commands that run. */
  readonly waiting = computed(() => this.requests.value.filter((request) => !this.view.value.handledRequests.has(request.id)));

  private readonly stream: EventStream;
  private queue: StreamEvent[] = [];
  private readonly uiRequests = new UiRequests();
  private pendingUiRequests: UiRequest[] = [];
  private isScheduled = false;
  private readonly reading = new Set<string>();
  private readonly unreadable = new Set<string>();
  private closeStream = (): void => {};
  private refreshTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly id: string) {
    this.view.value = emptyView(id);
    this.stream = new EventStream(sessionSource(id), {
      events: (events) => this.receive(events),
      connection: (state) => {
        this.connection.value = state;
        if (state === "live") this.uiRequests.restart();
      },
      refused: (status) => {
        if (status === 404) this.missing.value = true;
        else access.value = "login";
      },
      restart: () => {
        this.queue = [];
        this.view.value = emptyView(id);
      },
    });
  }

  open(): void {
    this.closeStream = openVisibleStream(this.stream);
    void this.refresh();
    void this.loadCommands();
    void this.loadAppearances();
  }

  close(): void {
    this.closeStream();
    clearTimeout(this.refreshTimer);
  }

  private receive(events: StreamEvent[]): void {
    for (const event of events) this.queue.push(event);
    this.pendingUiRequests.push(...this.uiRequests.take(events));
    if (this.isScheduled) return;
    this.isScheduled = true;
    if (document.hidden) setTimeout(this.flush, 250);
    else requestAnimationFrame(this.flush);
  }

  private readonly flush = (): void => {
    this.isScheduled = false;
    const events = this.queue;
    this.queue = [];
    const before = this.view.value;
    this.view.value = apply(before, events);
    if (this.view.value.caughtUp) {
      for (const child of childrenToRead(this.view.value)) if (!this.unreadable.has(child)) void this.readChild(child);
    }
    for (const request of this.pendingUiRequests.splice(0)) this.handleUiRequest(request);
    if (!before.caughtUp) return;
    this.announce(events);
    this.handleRefusals(events);
    if (this.isInterrupted.value || events.some(changesDetails)) this.refreshSoon(); // another process may resume an interrupted run
  };

  private handleUiRequest(request: UiRequest): void {
    if (request.kind === "switch" && request.session) {
      void refreshList();
      openSession(request.session);
    } else if (request.kind === "editor") {
      composerText.value = request.text;
      focusComposer();
    }
  }

  private announce(events: StreamEvent[]): void {
    for (const event of events) {
      if (event.type === "run_ended" && event["status"] !== "completed") announcement.value = `The run ended: ${event["status"]}.`;
      else if (event.type === "assistant_message" && !event["suppressed"]) this.announceAnswer(event);
      else if (event.type === "question_asked") announcement.value = `Question: ${event["question"].text}`;
    }
  }

  private announceAnswer(answer: StreamEvent): void {
    const text = plainTextOf((answer["shown"] ?? answer["content"]) as ContentBlock[]).trim();
    if (text) announcement.value = text.slice(0, MAX_ANNOUNCEMENT);
  }

  private handleRefusals(events: StreamEvent[]): void {
    for (const event of events) {
      if (event.type !== "request_refused") continue;
      this.answering.value = new Set(); // if it was an answer, its question is still open
      if (event["reason"] === TAKEN_BACK) continue;
      this.refused.add(event["request"]);
      const request = this.requests.value.find((other) => other.id === event["request"]);
      if (request?.type === "steer" && request.by === "web") this.resendSteer(request.id, request.content ?? []);
    }
  }

  /** A steer that came too late becomes the next prompt, or returns to the composer if the run was stopped. */
  private resendSteer(steer: string, content: PlainBlock[]): void {
    if (this.resent.value.has(steer) || !canAct()) return;
    this.resent.value = new Set([...this.resent.value, steer]);
    const returnPrompt = (): void => {
      this.returnedPrompt.value = [...(this.returnedPrompt.value ?? []), ...content];
    };
    if (this.view.value.promptsHeld) return returnPrompt();
    void this.request({ type: "prompt", id: lateSteerId(steer), content }).then((sent) => sent || returnPrompt());
  }

  private refreshSoon(): void {
    clearTimeout(this.refreshTimer);
    this.refreshTimer = setTimeout(() => void this.refresh(), 150);
  }

  async refresh(): Promise<void> {
    try {
      const details = await api.session(this.id);
      this.details.value = details;
      if (details.status === "cut") void refreshList(); // no fact says so
      this.questionsElsewhere.value = details.questions ?? [];
      const { requests } = await api.requests(this.id);
      const typed = new Map(this.requests.value.map((request) => [request.id, request.content]));
      this.requests.value = requests.flatMap((request) => {
        if (!QUEUED.has(request.type)) return [];
        const content = typed.get(request.id) ?? request.content; // as it was typed here, before the server expanded it
        return [content ? { ...request, content } : request];
      });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404 && !this.details.value) this.missing.value = true;
    }
  }

  async loadCommands(): Promise<void> {
    try {
      this.commands.value = (await api.commands(this.id)).commands;
    } catch {
      this.commands.value = []; // the page works without completion
    }
  }

  async loadAppearances(): Promise<void> {
    try {
      this.appearances.value = new Map((await api.renderers(this.id)).tools.map((appearance) => [appearance.tool, appearance]));
    } catch {
      this.appearances.value = new Map(); // calls look as usual
    }
  }

  /** Continues a run whose model failed with another model. */
  async continueWith(model: string): Promise<void> {
    await attempt(async () => {
      const response = await api.request(this.id, { type: "set_model", model }, SET_MODEL_TIMEOUT);
      if (response.state === "refused") return toast(String(response.fact?.["reason"] ?? "The request was refused."), "error");
      await this.request({ type: "continue" });
    });
  }

  /** Reads a child from its own log, if its first events did not arrive live. */
  async readChild(child: string): Promise<void> {
    if (this.reading.has(child)) return;
    this.reading.add(child);
    try {
      let view = emptyView(child);
      for (let hasMore = true; hasMore; ) {
        const page = await api.facts(child, view.seq);
        view = apply(view, page.facts);
        const liveSeq = findChild(this.view.value, child)?.seq ?? 0;
        hasMore = page.facts.length > 0 && (page.has_more || view.seq < liveSeq);
      }
      this.view.value = withChild(this.view.value, view);
    } catch {
      this.unreadable.add(child); // it is read again when a person opens it
    } finally {
      this.reading.delete(child);
    }
  }

  request(body: { type: string } & Record<string, unknown>): Promise<unknown> {
    return attempt(async () => {
      const response = await api.request(this.id, body);
      if (body.type === "prompt" || body.type === "steer") {
        const request = { id: response.id, type: body.type, content: body["content"] as PlainBlock[], by: "web" };
        if (request.type === "steer" && (response.state === "refused" || this.refused.has(request.id))) {
          this.resendSteer(request.id, request.content);
          return response;
        }
        if (response.state === "waiting") {
          this.requests.value = [...this.requests.value.filter((other) => other.id !== request.id), request];
          this.refreshSoon(); // it may have become a command
        }
      }
      if (response.state === "refused") toast(String(response.fact?.["reason"] ?? "The request was refused."), "error");
      void refreshList();
      return response;
    });
  }

  async withdraw(request: WaitingRequest): Promise<boolean> {
    const isDone = await attempt(async () => {
      await api.withdraw(this.id, request.id);
      return true;
    });
    if (isDone) this.requests.value = this.requests.value.filter((other) => other.id !== request.id);
    return Boolean(isDone);
  }

  async answer({ session, asked }: OpenQuestion, answer: unknown, declined = false): Promise<void> {
    this.answering.value = new Set([...this.answering.value, asked.id]);
    const body = declined ? { declined: true, ...(answer ? { answer } : {}) } : { answer };
    try {
      await api.request(session, { type: "answer", question: asked.id, ...body });
      void refreshList();
      this.refreshSoon();
    } catch (error) {
      this.answering.value = new Set([...this.answering.value].filter((id) => id !== asked.id));
      toast(error instanceof Error ? error.message : String(error), "error");
    }
  }
}

/** Whether the agent is another vendor's. */
export const isDriven = (session: OpenSession): boolean => session.view.value.driver !== "agent";

export const current = signal<OpenSession | null>(null);
