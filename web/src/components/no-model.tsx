/** Where no model can answer: what was looked for, and how to go on. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { look, me } from "../state/app";
import { api } from "../api/client";
import type { Finding } from "../api/types";
import { Icon } from "./icons";

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function NoModel({ cwd }: { cwd: string }): JSX.Element | null {
  const known = me.value;
  const isMissing = known !== null && known.model === "";
  const [findings, setFindings] = useState<Finding[]>([]);
  useEffect(() => {
    if (!isMissing) return;
    api.models(cwd).then(
      (found) => setFindings(found.looked_for ?? []),
      () => setFindings([]), // the notice says the most important
    );
  }, [isMissing, cwd, known]);
  if (!known?.notice) return null;
  if (!isMissing) return cwd ? null : <p class="small-print">{sentence(known.notice)}</p>;
  return (
    <div class="notice warning no-model" role="status" aria-label="No model">
      <Icon name="warning" size={15} />
      <div>
        <p>{sentence(known.notice)}</p>
        {findings.length > 0 && (
          <details>
            <summary>What was looked for</summary>
            <ul tabIndex={0} aria-label="What was looked for">
              {findings.map((one) => (
                <li key={one.name}>
                  <strong>{one.name}</strong>: {one.detail}
                  {one.to_do && <span class="to-do">{one.to_do}</span>}
                </li>
              ))}
            </ul>
          </details>
        )}
        <button type="button" onClick={() => void look()}>
          Look again
        </button>
      </div>
    </div>
  );
}
