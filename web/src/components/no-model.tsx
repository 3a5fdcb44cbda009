/** Shown while no model is available: what was checked, and what to do. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { SetupCheck } from "../api/types";
import { me, refresh } from "../state/app";
import { Icon } from "./icons";

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function NoModel({ cwd }: { cwd: string }): JSX.Element | null {
  const server = me.value;
  const isMissing = server !== null && server.model === "";
  const [checks, setChecks] = useState<SetupCheck[]>([]);
  useEffect(() => {
    if (!isMissing) return;
    api.models(cwd).then(
      (response) => setChecks(response.looked_for ?? []),
      () => setChecks([]), // the notice has the essentials
    );
  }, [isMissing, cwd, server]);
  if (!server?.notice) return null;
  if (!isMissing) return cwd ? null : <p class="small-print">{sentence(server.notice)}</p>;
  return (
    <div class="notice warning no-model" role="status" aria-label="No model">
      <Icon name="warning" size={15} />
      <div>
        <p>{sentence(server.notice)}</p>
        {checks.length > 0 && (
          <details>
            <summary>What was checked</summary>
            <ul tabIndex={0} aria-label="What was checked">
              {checks.map((check) => (
                <li key={check.name}>
                  <strong>{check.name}</strong>: {check.detail}
                  {check.to_do && <span class="to-do">{check.to_do}</span>}
                </li>
              ))}
            </ul>
          </details>
        )}
        <button type="button" onClick={() => void refresh()}>
          Check again
        </button>
      </div>
    </div>
  );
}
