/** When a model has failed for good: others that can go on, each with a click. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { rescuers } from "../state/fallback-models";
import { overlay } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { api } from "../api/client";

const FIRST = 3;

export function Rescuers({ session, failure }: { session: OpenSession; failure: string }): JSX.Element {
  const [others, setOthers] = useState<string[]>([]);
  const { model, cwd } = session.view.value;
  useEffect(() => {
    api.models(cwd).then(
      (found) => setOthers(rescuers(found.models, model, failure)),
      () => setOthers([]), // one can still be named
    );
  }, [cwd, model, failure]);
  return (
    <>
      {others.slice(0, FIRST).map((one) => (
        <button type="button" key={one} onClick={() => void session.goOnWith(one)}>
          Go on with {one}
        </button>
      ))}
      <button type="button" class="quiet" onClick={() => { overlay.value = "rescue"; }}>
        Another model…
      </button>
    </>
  );
}
