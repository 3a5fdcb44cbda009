/** The usage of all sessions by day, model or session. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { Spending, UsageGroup } from "../api/types";
import { overlay } from "../state/app";
import { openSession } from "../state/route";
import { sessions } from "../state/session-list";
import { costOf, groupName, totalSpending } from "../text/format";
import { dollars, shortTokens, totalTokens } from "../text/format";
import { Dialog } from "./dialog";

const BY = { day: "Day", model: "Model", session: "Session" };
const SINCE: [string, string][] = [
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["", "All time"],
];

function close(): void {
  overlay.value = "";
}

function costText(spending: Spending): string {
  const { cost, isComplete } = costOf(spending);
  return isComplete ? dollars(cost) : cost ? `${dollars(cost)} +` : "unknown";
}

function Row({ group, highest, by }: { group: UsageGroup; highest: number; by: keyof typeof BY }): JSX.Element {
  const spending = totalSpending(group);
  const id = by === "session" ? (group.session ?? "") : "";
  const session = sessions.value.find((other) => other.id === id);
  const name = groupName(group, by, session?.title || session?.preview || "");
  const share = highest ? costOf(spending).cost / highest : 0;
  return (
    <tr>
      <th scope="row">
        {id ? <button type="button" class="quiet small" onClick={() => { close(); openSession(id); }}>{name}</button> : name}
        <span class="usage-bar" style={{ width: `${Math.round(share * 100)}%` }} aria-hidden="true" />
      </th>
      <td>{spending.calls ?? 0}</td>
      <td>{shortTokens(totalTokens(spending.usage))}</td>
      <td>{costText(spending)}</td>
    </tr>
  );
}

export function UsageDialog(): JSX.Element {
  const [by, setBy] = useState<keyof typeof BY>("day");
  const [since, setSince] = useState("30d");
  const [usage, setUsage] = useState<{ groups: UsageGroup[]; own: Spending; children: Spending } | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isGone = false;
    api.usage(by, since).then(
      (response) => isGone || (setUsage(response), setProblem("")),
      (error: Error) => isGone || setProblem(error.message),
    );
    return () => {
      isGone = true;
    };
  }, [by, since]);
  const groups = usage?.groups ?? [];
  const sorted = by === "day" ? [...groups].reverse() : [...groups].sort((first, second) => costOf(totalSpending(second)).cost - costOf(totalSpending(first)).cost);
  const highest = Math.max(0, ...groups.map((group) => costOf(totalSpending(group)).cost));
  const total = usage ? totalSpending(usage) : null;
  const radio = (name: string, value: string, label: string, isOn: boolean, choose: () => void): JSX.Element => (
    <label key={value} class={isOn ? "chip chosen" : "chip"}>
      <input type="radio" name={name} class="visually-hidden" checked={isOn} onChange={choose} />
      {label}
    </label>
  );
  return (
    <Dialog title="Usage of all sessions" onClose={close} wide>
      <div class="usage-choices">
        <fieldset class="levels">
          <legend>By</legend>
          {Object.entries(BY).map(([value, label]) => radio("by", value, label, by === value, () => setBy(value as keyof typeof BY)))}
        </fieldset>
        <fieldset class="levels">
          <legend>Period</legend>
          {SINCE.map(([value, label]) => radio("since", value, label, since === value, () => setSince(value)))}
        </fieldset>
      </div>
      {problem && <p class="problem" role="alert">{problem}</p>}
      {usage && !groups.length && <p class="hint">No usage yet.</p>}
      {total && groups.length > 0 && (
        <div class="usage-scroll" tabIndex={0} role="region" aria-label="Usage">
          <table class="usage">
            <thead>
              <tr>
                <th scope="col">{BY[by]}</th>
                <th scope="col">Calls</th>
                <th scope="col">Tokens</th>
                <th scope="col">Cost</th>
              </tr>
            </thead>
            <tbody>
              {sorted.map((group) => <Row key={group.day || group.model || group.session} group={group} highest={highest} by={by} />)}
            </tbody>
            <tfoot>
              <tr>
                <th scope="row">Total</th>
                <td>{total.calls ?? 0}</td>
                <td>{shortTokens(totalTokens(total.usage))}</td>
                <td>{costText(total)}</td>
              </tr>
            </tfoot>
          </table>
        </div>
      )}
    </Dialog>
  );
}
