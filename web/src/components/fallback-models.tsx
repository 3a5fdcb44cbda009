/** After a model failed: buttons to continue with another one. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { overlay } from "../state/app";
import { fallbackModels } from "../state/fallback-models";
import type { OpenSession } from "../state/open-session";

const MAX_BUTTONS = 3;

export function FallbackModels({ session, failure }: { session: OpenSession; failure: string }): JSX.Element {
  const [others, setOthers] = useState<string[]>([]);
  const { model, cwd } = session.view.value;
  useEffect(() => {
    api.models(cwd).then(
      (response) => setOthers(fallbackModels(response.models, model, failure)),
      () => setOthers([]), // a person can still enter one
    );
  }, [cwd, model, failure]);
  return (
    <>
      {others.slice(0, MAX_BUTTONS).map((name) => (
        <button type="button" key={name} onClick={() => void session.continueWith(name)}>
          Continue with {name}
        </button>
      ))}
      <button type="button" class="quiet" onClick={() => { overlay.value = "fallback"; }}>
        Another model…
      </button>
    </>
  );
}
