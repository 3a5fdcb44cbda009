/** Calls of tools: their arguments while they are written, what they print, what came of them; and children. */

import type { Frame, TodoItem, Totals } from "../api/types";
import type { Draft } from "./draft";
import { grown, pointsIn } from "./growing";
import { sumOfUsage } from "../text/spending";
import type { ChildView, SessionView, ToolBlock } from "./session-view";
import { leastCost } from "../text/format";

type FoldChild = (view: SessionView | null, session: string, event: Frame) => SessionView;

/** Of what a running tool prints, so many characters are kept to be seen. */
export const KEPT_OUTPUT = 100_000;

export function newTool(call: string, name: string, message: string): ToolBlock {
  return {
    key: `tool:${call}`,
    anchor: 0,
    time: "",
    kind: "tool",
    seq: 0,
    message,
    call,
    calledSeq: 0,
    name,
    about: "other",
    stage: "writing",
    argumentsText: "",
    argumentsPoints: 0,
    arguments: null,
    malformed: "",
    display: null,
    output: "",
    outputPoints: 0,
    startedAt: "",
    allowedBy: "",
    answered: "",
    note: "",
    child: null,
    result: null,
  };
}

function newChild(session: string): ChildView {
  return { session, agent: "", task: "", status: "running", reason: "", totals: null, view: null };
}

export function foldTools(draft: Draft, frame: Frame, foldChild: FoldChild): boolean {
  const view = draft.view;
  const call = frame["call"] as string;
  const tool = call ? draft.find(`tool:${call}`, "tool") : undefined;
  const change = (changes: Partial<ToolBlock>): void => {
    if (tool) draft.put({ ...tool, ...changes });
  };
  switch (frame.type) {
    case "tool_input_started":
      if (!tool) draft.putUnsettled(frame["message"], { ...newTool(call, frame["name"], frame["message"]), anchor: view.leaf });
      return true;
    case "tool_input_delta": {
      if (!tool || tool.stage !== "writing") return true;
      const before = { text: tool.argumentsText, points: tool.argumentsPoints };
      const now = grown(before, frame["offset"], frame["text"]);
      if (now) change({ argumentsText: now.text, argumentsPoints: now.points });
      return true;
    }
    case "tool_input_ended":
      if (tool?.stage === "writing") change({ stage: "called" });
      return true;
    case "tool_called":
      draft.put({
        ...(tool ?? { ...newTool(call, frame["name"], ""), anchor: view.leaf, stage: "called", seq: frame.seq ?? 0 }),
        calledSeq: frame.seq ?? 0,
        arguments: frame["arguments"],
        about: frame["kind"] ?? "other",
        malformed: frame["malformed"] ?? "",
        display: frame["display"] ?? null,
      });
      return true;
    case "tool_started":
      change({
        stage: "running",
        startedAt: frame.time ?? "",
        allowedBy: frame["allowed_by"] ?? "",
        arguments: frame["arguments"] ?? tool?.arguments ?? null,
        output: "",
        outputPoints: 0,
        child: frame["child"] && !tool?.child ? newChild(frame["child"]) : (tool?.child ?? null),
      });
      return true;
    case "tool_output":
      takeOutput(tool, frame, change);
      return true;
    case "tool_deferred":
      change({ stage: "deferred", note: frame["note"] ?? "" });
      return true;
    case "tool_result":
      takeResult(view, tool, frame, change);
      return true;
    case "question_asked":
      view.questions = [
        ...view.questions,
        {
          session: view.id,
          id: frame["id"],
          question: frame["question"],
          call: frame["call"] ?? "",
          askedBy: frame["asked_by"] ?? "permission",
          agent: "",
        },
      ];
      change({ stage: "asking" });
      return true;
    case "question_answered":
      takeAnswer(draft, frame);
      return true;
    case "child_started":
    case "child_event":
    case "child_used":
    case "child_ended":
      takeChild(draft, frame, tool, foldChild);
      return true;
    default:
      return false;
  }
}

function takeOutput(tool: ToolBlock | undefined, frame: Frame, change: (changes: Partial<ToolBlock>) => void): void {
  if (!tool || tool.result) return;
  const { offset, text } = frame as unknown as { offset: number; text: string };
  if (offset > tool.outputPoints) {
    const output = `${tool.output}\n…\n${text}`.slice(-KEPT_OUTPUT);
    return change({ output, outputPoints: offset + pointsIn(text) });
  }
  const now = grown({ text: tool.output, points: tool.outputPoints }, offset, text);
  if (now) change({ output: now.text.slice(-KEPT_OUTPUT), outputPoints: now.points });
}

function takeResult(
  view: Draft["view"],
  tool: ToolBlock | undefined,
  frame: Frame,
  change: (changes: Partial<ToolBlock>) => void,
): void {
  const failed = (frame["failed"] ?? null) as string | null;
  change({
    stage: failed ? "failed" : "done",
    output: "",
    outputPoints: 0,
    result: {
      content: frame["content"] ?? [],
      failed,
      details: frame["details"] ?? null,
      seq: frame.seq ?? 0,
      summary: frame["summary"] ?? "",
      output: frame["output"] ?? null,
      duration: frame["duration_ms"] ?? 0,
      repeats: frame["repeats"] ?? 0,
    },
  });
  const items = (frame["details"] as { items?: TodoItem[] } | null | undefined)?.items;
  if (tool?.name === "todo" && Array.isArray(items)) view.todo = items;
}

const SAID: Record<string, string> = {
  yes: "allowed once",
  no: "denied",
  session: "allowed in this session",
  project: "allowed in this project",
  user: "allowed everywhere",
};

function takeAnswer(draft: Draft, frame: Frame): void {
  const view = draft.view;
  const asked = view.questions.find((one) => one.id === frame["id"]);
  view.questions = view.questions.filter((one) => one.id !== frame["id"]);
  if (!asked) return;
  const answer = frame["answer"];
  const several = Array.isArray(answer) ? answer.join(", ") || "none" : answer;
  const plain = answer == null ? "answered" : typeof several === "string" ? several : JSON.stringify(answer);
  const said = frame["outcome"] === "answered" ? plain : frame["outcome"];
  const tool = asked.call ? draft.find(`tool:${asked.call}`, "tool") : undefined;
  if (tool) {
    const answered = asked.question.kind === "permission" ? (SAID[said] ?? said) : said;
    draft.put({ ...tool, stage: tool.result ? tool.stage : tool.startedAt ? "running" : "called", answered });
  } else if (frame["outcome"] !== "withdrawn") {
    const text = `${asked.question.text.split("\n")[0]} → ${said}`;
    const base = { key: `fact:${frame.seq}`, anchor: view.leaf, time: frame.time ?? "" };
    draft.put({ ...base, kind: "notice", level: "quiet", title: "Asked", text });
  }
}

/** Of another vendor's agent. A call that only went on with it has no child of its own. */
function takeUse(draft: Draft, frame: Frame, tool: ToolBlock | undefined): void {
  const used: Totals = { usage: frame["usage"] };
  draft.view.childrenUsage = [...draft.view.childrenUsage, used];
  const child = tool?.child;
  if (!child || child.session !== frame["child"]) return;
  const before = child.totals ?? {};
  const totals = { usage: sumOfUsage(before.usage, used.usage), known_cost: leastCost(before) + leastCost(used) };
  draft.put({ ...tool, child: { ...child, totals } });
}

function takeChild(draft: Draft, frame: Frame, tool: ToolBlock | undefined, foldChild: FoldChild): void {
  const session = frame["child"] as string;
  if (frame.type === "child_used") return takeUse(draft, frame, tool);
  const key = `child:${session}`;
  const alone = tool ? undefined : draft.find(key, "child");
  let child = (tool?.child?.session === session ? tool.child : alone?.child) ?? newChild(session);
  if (frame.type === "child_event") {
    child = { ...child, view: foldChild(child.view, session, frame["event"] as Frame) };
  } else if (frame.type === "child_started") {
    child = { ...child, agent: frame["agent"] ?? "", task: frame["task"] ?? "", status: "running" };
  } else {
    child = { ...child, status: frame["status"], reason: frame["reason"] ?? "", totals: frame["own"] ?? child.totals };
    draft.view.childrenUsage = [...draft.view.childrenUsage, frame["own"] ?? {}, frame["children"] ?? {}];
  }
  if (tool) draft.put({ ...tool, child });
  else if (!frame["call"]) {
    const base = alone ?? { key, anchor: draft.view.leaf, time: frame.time ?? "", extension: "" };
    draft.put({ ...base, kind: "child", extension: frame["extension"] ?? base.extension, child });
  }
}
