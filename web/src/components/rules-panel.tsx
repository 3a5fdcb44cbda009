/** What the agent may do here: how it is asked about, and the rules that answers have left behind. */

import type { JSX } from "preact";
import { mayAct } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { Icon } from "./icons";

const SCOPES: Record<string, string> = { session: "in this session", project: "in this project", user: "everywhere" };

export function RulesPanel({ session }: { session: OpenSession }): JSX.Element {
  const { permissions, remembered } = session.view.value;
  return (
    <>
      {permissions && (
        <p>
          Where no rule says otherwise: <code>{permissions}</code>
        </p>
      )}
      {!remembered.length && <p class="hint">No answer was remembered here.</p>}
      <ul class="rules" aria-label="Remembered rules">
        {remembered.map((one) => (
          <li key={`${one.scope}/${one.rule}`}>
            <span>
              {one.effect} <code>{one.rule}</code> <small>{SCOPES[one.scope] ?? one.scope}</small>
            </span>
            {mayAct() && one.scope === "session" && (
              <button type="button" class="quiet small" aria-label={`Forget ${one.rule}`} title="Forget this rule" onClick={() => void session.request({ type: "revoke_permission", rule: one.rule })}>
                <Icon name="close" size={14} />
              </button>
            )}
          </li>
        ))}
      </ul>
      {remembered.some((one) => one.scope !== "session") && (
        <p class="small-print">
          <code>ostler permissions</code> shows and forgets what holds beyond this session.
        </p>
      )}
    </>
  );
}
