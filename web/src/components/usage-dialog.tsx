/** What all sessions have used: by day, model or session. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { costOf, groupName, spentTogether } from "../text/spending";
import { dollars, shortTokens, totalTokens } from "../text/format";
import { overlay } from "../state/app";
import { goTo } from "../state/route";
import { sessions } from "../state/session-list";
import { api } from "../api/client";
import type { Spent, UsageGroup } from "../api/types";
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

function costWords(spent: Spent): string {
  const { cost, isWhole } = costOf(spent);
  return isWhole ? dollars(cost) : cost ? `${dollars(cost)} +` : "not known";
}

function Row({ group, most, by }: { group: UsageGroup; most: number; by: keyof typeof BY }): JSX.Element {
  const spent = spentTogether(group);
  const id = by === "session" ? (group.session ?? "") : "";
  const known = sessions.value.find((one) => one.id === id);
  const name = groupName(group, by, known?.title || known?.preview || "");
  const share = most ? costOf(spent).cost / most : 0;
  return (
    <tr>
      <th scope="row">
        {id ? <button type="button" class="quiet small" onClick={() => { close(); goTo(id); }}>{name}</button> : name}
        <span class="usage-bar" style={{ width: `${Math.round(share * 100)}%` }} aria-hidden="true" />
      </th>
      <td>{spent.calls ?? 0}</td>
      <td>{shortTokens(totalTokens(spent.usage))}</td>
      <td>{costWords(spent)}</td>
    </tr>
  );
}

export function UsageDialog(): JSX.Element {
  const [by, setBy] = useState<keyof typeof BY>("day");
  const [since, setSince] = useState("30d");
  const [found, setFound] = useState<{ groups: UsageGroup[]; own: Spent; children: Spent } | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isGone = false;
    api.usage(by, since).then(
      (answer) => isGone || (setFound(answer), setProblem("")),
      (error: Error) => isGone || setProblem(error.message),
    );
    return () => {
      isGone = true;
    };
  }, [by, since]);
  const groups = found?.groups ?? [];
  const shown = by === "day" ? [...groups].reverse() : [...groups].sort((one, other) => costOf(spentTogether(other)).cost - costOf(spentTogether(one)).cost);
  const most = Math.max(0, ...groups.map((group) => costOf(spentTogether(group)).cost));
  const total = found ? spentTogether(found) : null;
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
          <legend>Of</legend>
          {SINCE.map(([value, label]) => radio("since", value, label, since === value, () => setSince(value)))}
        </fieldset>
      </div>
      {problem && <p class="problem" role="alert">{problem}</p>}
      {found && !groups.length && <p class="hint">Nothing was used.</p>}
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
              {shown.map((group) => <Row key={group.day || group.model || group.session} group={group} most={most} by={by} />)}
            </tbody>
            <tfoot>
              <tr>
                <th scope="row">In all</th>
                <td>{total.calls ?? 0}</td>
                <td>{shortTokens(totalTokens(total.usage))}</td>
                <td>{costWords(total)}</td>
              </tr>
            </tfoot>
          </table>
        </div>
      )}
    </Dialog>
  );
}
