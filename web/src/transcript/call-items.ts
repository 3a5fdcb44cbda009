/** Items of tool calls, the questions about them, and child runs. */

import type { StreamEvent, TodoItem, Totals } from "../api/types";
import { knownCost, sumOfUsage } from "../text/format";
import { type CallItem, type CallStage, type ChildItem, type QuestionItem, LIVE, pointsIn, withFragment } from "./items";
import type { SessionView, ViewDraft } from "./session-view";

type ApplyToChild = (view: SessionView | null, session: string, event: StreamEvent) => SessionView;
type Change = (changes: Partial<CallItem>) => void;

/** The characters of a running tool's output that stay visible. */
export const MAX_OUTPUT = 100_000;

export function newCall(call: string, name: string, message: string): CallItem {
  return {
    ...LIVE,
    key: `call:${call}`,
    kind: "call",
    call,
    message,
    calledSeq: 0,
    name,
    toolKind: "other",
    display: null,
    arguments: null,
    argumentsText: "",
    argumentsPoints: 0,
    malformed: "",
    stage: "writing",
    output: "",
    outputPoints: 0,
    allowedBy: "",
    question: "",
    answerText: "",
    note: "",
    startedMs: 0,
    children: [],
    result: null,
  };
}

function newChild(base: typeof LIVE, session: string): ChildItem {
  const key = `child:${session}`;
  return { ...base, key, kind: "child", session, agent: "", task: "", extension: "", status: "running", reason: "", totals: null, view: null };
}

export function applyToCalls(draft: ViewDraft, event: StreamEvent, applyToChild: ApplyToChild): boolean {
  const view = draft.view;
  const id = event["call"] as string;
  const call = id ? draft.find(`call:${id}`, "call") : undefined;
  const change: Change = (changes) => {
    if (call) draft.put({ ...call, ...changes });
  };
  switch (event.type) {
    case "tool_input_started":
      if (!call) draft.putStreaming(event["message"], { ...newCall(id, event["name"], event["message"]), anchor: view.leaf });
      return true;
    case "tool_input_delta": {
      if (call?.stage !== "writing") return true;
      const streamed = withFragment({ text: call.argumentsText, points: call.argumentsPoints }, event["offset"], event["text"]);
      if (streamed) change({ argumentsText: streamed.text, argumentsPoints: streamed.points });
      return true;
    }
    case "tool_input_ended":
      if (call?.stage === "writing") change({ stage: "called" });
      return true;
    case "tool_called":
      draft.put({
        ...(call ?? { ...newCall(id, event["name"], ""), ...draft.base(event), key: `call:${id}`, stage: "called" }),
        calledSeq: event.seq ?? 0,
        arguments: event["arguments"],
        toolKind: event["kind"] ?? "other",
        malformed: event["malformed"] ?? "",
        display: event["display"] ?? null,
      });
      return true;
    case "tool_started": {
      const child = event["child"] as string | undefined;
      const isNew = child && !call?.children.some((other) => other.session === child);
      change({
        stage: "running",
        startedMs: Date.parse(event.time ?? "") || 0,
        allowedBy: event["allowed_by"] ?? "",
        arguments: event["arguments"] ?? call?.arguments ?? null,
        output: "",
        outputPoints: 0,
        ...(isNew && call && { children: [...call.children, newChild(draft.base(event), child)] }),
      });
      return true;
    }
    case "tool_output":
      if (call && !call.result) appendOutput(call, event, change);
      return true;
    case "tool_deferred":
      change({ stage: "deferred", note: event["note"] ?? "" });
      return true;
    case "tool_result":
      applyResult(view, call, event, change);
      return true;
    case "question_asked": {
      const asked = withoutEnvelope(event) as QuestionItem["asked"];
      const base = { ...draft.base(event), key: `question:${asked.id}` };
      draft.put({ ...base, kind: "question", id: asked.id, session: view.id, agent: "", asked, state: "open", answer: null, by: "", identity: "" });
      change({ stage: "asking", question: asked.id });
      return true;
    }
    case "question_answered":
      applyAnswerToQuestion(draft, event);
      return true;
    case "child_used":
      applyChildUsage(draft, event, call);
      return true;
    case "child_started":
    case "child_event":
    case "child_ended":
      applyToChildItem(draft, event, call, applyToChild);
      return true;
    default:
      return false;
  }
}

/** The event of a fact, without the fields that every fact has. */
export function withoutEnvelope({ seq: _1, session: _2, run: _3, time: _4, parent: _5, origin: _6, ...event }: StreamEvent): Record<string, unknown> {
  return event;
}

function appendOutput(call: CallItem, event: StreamEvent, change: Change): void {
  const { offset, text } = event as unknown as { offset: number; text: string };
  if (offset > call.outputPoints) {
    const output = `${call.output}\n…\n${text}`.slice(-MAX_OUTPUT);
    return change({ output, outputPoints: offset + pointsIn(text) });
  }
  const streamed = withFragment({ text: call.output, points: call.outputPoints }, offset, text);
  if (streamed) change({ output: streamed.text.slice(-MAX_OUTPUT), outputPoints: streamed.points });
}

const STAGES: Record<string, CallStage> = { call_refused: "refused", tool_cancelled: "cancelled", tool_interrupted: "cancelled" };

function applyResult(view: ViewDraft["view"], call: CallItem | undefined, event: StreamEvent, change: Change): void {
  const failed = (event["failed"] ?? null) as string | null;
  change({
    stage: failed ? (STAGES[failed] ?? "failed") : "done",
    output: "",
    outputPoints: 0,
    result: {
      seq: event.seq ?? 0,
      content: event["content"] ?? [],
      failed,
      details: event["details"] ?? null,
      summary: event["summary"] ?? "",
      output: event["output"] ?? null,
      durationMs: event["duration_ms"] ?? 0,
      repeats: event["repeats"] ?? 0,
    },
  });
  const items = (event["details"] as { items?: TodoItem[] } | null | undefined)?.items;
  if (call?.name === "todo" && Array.isArray(items)) view.todo = items;
}

/** An answer as a line of text. */
export function answerText({ asked, state, answer }: Pick<QuestionItem, "asked" | "state" | "answer">): string {
  if (state !== "answered") return state;
  if (answer === null) return "answered";
  if (Array.isArray(answer)) return answer.join(", ") || "none";
  if (typeof answer !== "string") return JSON.stringify(answer);
  return asked.question.kind === "permission" ? (PERMISSIONS[answer] ?? answer) : answer;
}

const PERMISSIONS: Record<string, string> = {
  yes: "allowed once",
  no: "denied",
  session: "allowed in this session",
  project: "allowed in this project",
  user: "always allowed",
};

function applyAnswerToQuestion(draft: ViewDraft, event: StreamEvent): void {
  const open = draft.find(`question:${event["id"]}`, "question");
  if (open?.state !== "open") return;
  const question: QuestionItem = { ...open, state: event["outcome"], answer: event["answer"] ?? null, by: event["by"] ?? "", identity: event["identity"] ?? "" };
  draft.put(question);
  const call = question.asked.call ? draft.find(`call:${question.asked.call}`, "call") : undefined;
  if (!call) return;
  const stage = call.result ? call.stage : call.startedMs ? "running" : "called";
  draft.put({ ...call, stage, answerText: answerText(question) });
}

/** The usage of another vendor's agent. A later call that continues with it has no child of its own. */
function applyChildUsage(draft: ViewDraft, event: StreamEvent, call: CallItem | undefined): void {
  const used: Totals = { usage: event["usage"] };
  draft.view.childrenUsage = [...draft.view.childrenUsage, used];
  if (!call) return;
  const children = call.children.map((child) => {
    if (child.session !== event["child"]) return child;
    const before = child.totals ?? {};
    return { ...child, totals: { usage: sumOfUsage(before.usage, used.usage), known_cost: knownCost(before) + knownCost(used) } };
  });
  draft.put({ ...call, children });
}

function applyToChildItem(draft: ViewDraft, event: StreamEvent, call: CallItem | undefined, applyToChild: ApplyToChild): void {
  const session = event["child"] as string;
  const before = call ? call.children.find((child) => child.session === session) : draft.find(`child:${session}`, "child");
  const base = draft.base(event);
  let child = before ?? newChild(base, session);
  if (event.type === "child_event") {
    child = { ...child, view: applyToChild(child.view, session, event["event"] as StreamEvent) };
  } else if (event.type === "child_started") {
    const { agent = "", task = "", extension = child.extension } = event as Partial<ChildItem>;
    child = { ...child, ...base, key: child.key, agent, task, extension, status: "running" };
  } else {
    child = { ...child, status: event["status"], reason: event["reason"] ?? "", totals: event["own"] ?? child.totals };
    draft.view.childrenUsage = [...draft.view.childrenUsage, event["own"] ?? {}, event["children"] ?? {}];
  }
  if (!call) {
    if (!event["call"]) draft.put(child);
    return;
  }
  const children = before ? call.children.map((other) => (other === before ? child : other)) : [...call.children, child];
  draft.put({ ...call, children });
}
