/** The state of a session as the page shows it: its items, its tree, its run. `apply` makes the next one from events. */

import type { OpenQuestion, RunStatus, StreamEvent, TodoItem, Totals, Usage } from "../api/types";
import { type ChildItem, type Item, LIVE, childrenOf } from "./items";

export interface RunView {
  id: string;
  startedAt: string;
  model: string;
  step: number;
  waiting: "" | "question" | "pending" | "paused";
  /** A model call is under way. */
  calling: boolean;
  retryAt: number;
}
/** A permission rule that an answer created, and its scope. */
export interface RememberedRule {
  rule: string;
  effect: string;
  scope: string;
}
export interface SessionView {
  id: string;
  seq: number;
  /** A fact before the first one is missing: only in children that were joined late. */
  hasGap: boolean;
  caughtUp: boolean;
  /** Why only facts arrive, and no live events. */
  streamIncomplete: string;
  storeFailure: string;
  cwd: string;
  /** `agent` is our own, `terminal` an agent driven through its terminal; the others speak a protocol. */
  driver: string;
  title: string;
  childOf: string;
  forkedFrom: string;
  leaf: number;
  parents: ReadonlyMap<number, number>;
  path: ReadonlySet<number>;
  labels: ReadonlyMap<number, string>;
  items: readonly Item[];
  /** The index in `items` by key. */
  positions: ReadonlyMap<string, number>;
  /** The keys of items that consist of fragments, by message: the fact with the whole message replaces them. */
  streaming: ReadonlyMap<string, readonly string[]>;
  run: RunView | null;
  lastStatus: RunStatus | "";
  /** The kind of the model failure that ended the last run. */
  modelFailure: string;
  rememberedRules: readonly RememberedRule[];
  /** Prompts wait until someone releases them. */
  promptsHeld: boolean;
  todo: readonly TodoItem[];
  model: string;
  reasoning: string;
  permissions: string;
  usage: Usage;
  childrenUsage: Totals[];
  context: number;
  liveValues: ReadonlyMap<string, unknown>;
  /** The requests that a fact has answered. */
  handledRequests: ReadonlySet<string>;
  printedCount: number;
}

export function emptyView(id: string): SessionView {
  return {
    id,
    seq: 0,
    hasGap: false,
    caughtUp: false,
    streamIncomplete: "",
    storeFailure: "",
    cwd: "",
    driver: "agent",
    title: "",
    childOf: "",
    forkedFrom: "",
    leaf: 0,
    parents: new Map(),
    path: new Set(),
    labels: new Map(),
    items: [],
    positions: new Map(),
    streaming: new Map(),
    run: null,
    lastStatus: "",
    modelFailure: "",
    rememberedRules: [],
    promptsHeld: false,
    todo: [],
    model: "",
    reasoning: "",
    permissions: "",
    usage: { cost: 0 },
    childrenUsage: [],
    context: 0,
    liveValues: new Map(),
    handledRequests: new Set(),
    printedCount: 0,
  };
}

export function itemsOnPath(view: SessionView): Item[] {
  return view.items.filter((item) => item.anchor === 0 || view.path.has(item.anchor));
}

/** The items that the list shows. A refused steer is no longer of interest once it was sent again as a prompt. */
export function visibleItems(view: SessionView, resent: ReadonlySet<string> = new Set()): Item[] {
  const isShown = (item: Item): boolean => {
    if (item.hidden || item.kind === "todo_list") return false;
    if (item.kind === "notice" && item.request) return !resent.has(item.request) && !view.handledRequests.has(lateSteerId(item.request));
    if (item.kind !== "question") return true;
    return (item.state === "answered" || item.state === "declined") && !view.positions.has(`call:${item.asked.call}`);
  };
  return itemsOnPath(view).filter(isShown);
}

/** The reason of a refusal when a person withdrew the prompt. */
export const TAKEN_BACK = "the prompt was taken back before its turn";

/** The id of the prompt that a steer becomes when its run has ended: the same on every page. */
export const lateSteerId = (steer: string): string => `${steer}.late`;

export function hasOpenQuestion(view: SessionView): boolean {
  return view.items.some((item) => item.kind === "question" && item.state === "open");
}

/** The open questions of the session and of its running children. */
export function openQuestions(view: SessionView): OpenQuestion[] {
  const own = view.items.filter((item) => item.kind === "question").filter((item) => item.state === "open");
  const nested = view.items.flatMap(childrenOf).flatMap((child) => {
    if (!child.view || child.status !== "running") return [];
    return openQuestions(child.view).map((question) => ({ ...question, agent: question.agent || child.agent || "subagent" }));
  });
  return [...own, ...nested];
}

/** Whether the view of a child has all of its facts. */
export function isWhole(view: SessionView | null): view is SessionView {
  return view !== null && !view.hasGap && view.seq > 0;
}

/** The running children whose first facts are missing here. */
export function childrenToRead(view: SessionView): string[] {
  return view.items.flatMap(childrenOf).flatMap((child) => {
    if (child.status !== "running") return [];
    return isWhole(child.view) ? childrenToRead(child.view) : [child.session];
  });
}

export function findChild(view: SessionView, session: string): SessionView | null {
  for (const child of view.items.flatMap(childrenOf)) {
    const match = child.session === session ? child.view : child.view && findChild(child.view, session);
    if (match) return match;
  }
  return null;
}

/** A view that was read from a log, with the fragments that arrived live and are not in it yet. */
function withFragmentsOf(live: SessionView | null, read: SessionView): SessionView {
  if (!live?.streaming.size) return read;
  const complete = new Set(read.items.map((item) => ("message" in item ? item.message : "")));
  const open = [...live.streaming].filter(([message]) => !complete.has(message));
  const keys = new Set(open.flatMap(([, itemKeys]) => itemKeys));
  const fragments = live.items.filter((item) => keys.has(item.key)).map((item) => ({ ...item, anchor: read.leaf }));
  const items = [...read.items, ...fragments];
  return { ...read, items, positions: positionsOf(items), streaming: new Map(open) };
}

/** The view with a child that was read from its own log, unless the live one has more. */
export function withChild(view: SessionView, read: SessionView): SessionView {
  let isChanged = false;
  const updated = (child: ChildItem): ChildItem => {
    const before = child.view;
    const isNewer = !before || !isWhole(before) || before.seq < read.seq;
    const after = child.session === read.id ? (isNewer ? withFragmentsOf(before, read) : before) : before && withChild(before, read);
    if (after === before) return child;
    isChanged = true;
    return { ...child, view: after };
  };
  const items = view.items.map((item): Item => {
    if (item.kind === "child") return updated(item);
    if (item.kind !== "call" || !item.children.length) return item;
    const children = item.children.map(updated);
    return children.some((child, index) => child !== item.children[index]) ? { ...item, children } : item;
  });
  return isChanged ? { ...view, items } : view;
}

function positionsOf(items: readonly Item[]): Map<string, number> {
  return new Map(items.map((item, index) => [item.key, index]));
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };

/** The next view in the making: each collection is copied once, before its first change. */
export class ViewDraft {
  readonly view: Writable<SessionView>;
  private readonly copied = new Set<string>();

  constructor(view: SessionView) {
    this.view = { ...view };
  }

  private own<T>(name: keyof SessionView, copy: () => T): T {
    if (!this.copied.has(name)) {
      this.copied.add(name);
      (this.view as Record<string, unknown>)[name] = copy();
    }
    return this.view[name] as T;
  }

  private items(): Item[] {
    return this.own("items", () => [...this.view.items]);
  }
  labels(): Map<number, string> {
    return this.own("labels", () => new Map(this.view.labels));
  }
  liveValues(): Map<string, unknown> {
    return this.own("liveValues", () => new Map(this.view.liveValues));
  }
  markHandled(request: string | undefined): void {
    if (request) this.own("handledRequests", () => new Set(this.view.handledRequests)).add(request);
  }

  /** The common fields of an item that this event makes. */
  base(event: StreamEvent): typeof LIVE & { key: string } {
    const { seq = 0, run = "", time = "" } = event;
    return { ...LIVE, key: `fact:${seq}`, seq, anchor: this.view.leaf, run, timeMs: Date.parse(time) || 0 };
  }

  find<K extends Item["kind"]>(key: string, kind: K): Extract<Item, { kind: K }> | undefined {
    const position = this.view.positions.get(key);
    const item = position === undefined ? undefined : this.view.items[position];
    return item?.kind === kind ? (item as Extract<Item, { kind: K }>) : undefined;
  }

  /** Replaces the item with the same key, or appends it. */
  put(item: Item): void {
    const items = this.items();
    const position = this.view.positions.get(item.key);
    if (position !== undefined) {
      items[position] = item;
      return;
    }
    this.own("positions", () => new Map(this.view.positions)).set(item.key, items.length);
    items.push(item);
  }

  /** Like `put`, for an item that consists of fragments of a message. */
  putStreaming(message: string, item: Item): void {
    if (!this.view.positions.has(item.key)) {
      const keys = this.view.streaming.get(message) ?? [];
      this.own("streaming", () => new Map(this.view.streaming)).set(message, [...keys, item.key]);
    }
    this.put(item);
  }

  /** Ends the fragments of a message: only the items with these keys stay. */
  endStreaming(message: string, kept: ReadonlySet<string>): void {
    const keys = this.view.streaming.get(message);
    if (!keys) return;
    this.own("streaming", () => new Map(this.view.streaming)).delete(message);
    this.remove(new Set(keys.filter((key) => !kept.has(key))));
  }

  remove(keys: ReadonlySet<string>): void {
    if (![...keys].some((key) => this.view.positions.has(key))) return;
    const items = this.view.items.filter((item) => !keys.has(item.key));
    this.view.items = items;
    this.view.positions = positionsOf(items);
    this.copied.add("items").add("positions");
  }

  /** Replaces each item for which `change` returns another one. */
  update(change: (item: Item) => Item): void {
    this.view.items.forEach((item, index) => {
      const changed = change(item);
      if (changed !== item) this.items()[index] = changed;
    });
  }

  /** Makes a new entry of the tree the leaf. */
  appendEntry(seq: number, parent: number): void {
    this.own("parents", () => new Map(this.view.parents)).set(seq, parent);
    if (parent === this.view.leaf) {
      this.own("path", () => new Set(this.view.path)).add(seq);
      this.view.leaf = seq;
    } else this.moveLeaf(seq);
  }

  moveLeaf(to: number): void {
    const path = new Set<number>();
    for (let entry: number | undefined = to; entry && !path.has(entry); entry = this.view.parents.get(entry)) path.add(entry);
    this.view.path = path;
    this.copied.add("path");
    this.view.leaf = to;
  }
}
