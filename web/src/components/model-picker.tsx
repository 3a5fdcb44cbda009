/** Which model answers, and how much it thinks. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { shortTokens } from "../text/format";
import { attempt, overlay } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { api } from "../api/client";
import type { ModelInfo } from "../api/types";
import { Dialog } from "./dialog";

const LEVELS = ["off", "minimal", "low", "medium", "high"];
const MOST = 60;

const close = (): void => {
  overlay.value = "";
};

function aboutModel(model: ModelInfo): string {
  if (model.ready === false) return model.to_do || "there is no key for it";
  const { window, prices } = model;
  return [window ? `${shortTokens(window)} window` : "", prices?.input ? `$${prices.input} / $${prices.output ?? "?"}` : ""].filter(Boolean).join(" · ");
}

/** `goesOn`: the one that is chosen goes on where another has failed. */
export function ModelPicker({ session, goesOn = false }: { session: OpenSession; goesOn?: boolean }): JSX.Element {
  const view = session.view.value;
  const now = view.model || session.shown.value?.model || "";
  const [models, setModels] = useState<ModelInfo[]>([]);
  const [usual, setUsual] = useState("");
  const [query, setQuery] = useState("");
  const [marked, mark] = useState(-1);
  const [level, setLevel] = useState(view.reasoning || session.shown.value?.reasoning || "");
  useEffect(() => {
    void attempt(() => api.models(view.cwd)).then((found) => {
      if (!found) return;
      setModels(found.models);
      setUsual(found.default ?? "");
    });
  }, []);
  useEffect(() => {
    document.querySelector("#models .chosen")?.scrollIntoView({ block: "nearest" });
  }, [models]);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = models.filter((one) => words.every((word) => `${one.name} ${(one.aliases ?? []).join(" ")}`.toLowerCase().includes(word)));
  const isPresent = (one: ModelInfo): boolean => [one.name, ...(one.aliases ?? [])].includes(now || usual);
  const present = words.length ? -1 : found.findIndex(isPresent);
  const shown = found.slice(0, Math.max(MOST, present + 1));
  const at = marked >= 0 ? Math.min(marked, shown.length - 1) : words.length ? 0 : -1;
  const wanted = shown[at]?.name ?? (query.trim() || now);
  const known = models.find((one) => one.name === wanted);
  const levels = known ? (known.reasoning ?? []) : LEVELS;
  const choose = (model: string): void => {
    if (goesOn) void session.goOnWith(model);
    else void session.request({ type: "set_model", model, reasoning: level });
    close();
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const next = Math.max(0, Math.min(shown.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)));
    mark(next);
    document.getElementById(`model-${next}`)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <Dialog title={goesOn ? "Another model goes on" : "Model and reasoning"} onClose={close}>
      <form onSubmit={(event) => { event.preventDefault(); choose(wanted); }}>
        {levels.length > 0 && !goesOn && (
          <fieldset class="levels">
            <legend>Reasoning</legend>
            {levels.map((one) => (
              <label key={one} class={one === level ? "chip chosen" : "chip"}>
                <input type="radio" name="level" class="visually-hidden" checked={one === level} onChange={() => setLevel(one)} />
                {one}
              </label>
            ))}
          </fieldset>
        )}
        <input type="text" role="combobox" aria-label="Find a model" aria-expanded="true" aria-controls="models" aria-activedescendant={at >= 0 ? `model-${at}` : undefined} autofocus value={query} placeholder={now || "Find a model, or name one"} spellcheck={false} autocomplete="off" onInput={(event) => { setQuery(event.currentTarget.value); mark(-1); }} onKeyDown={key} />
        <ul class="models" id="models" role="listbox" aria-label="Models">
          {shown.map((one, place) => (
            <li key={one.name} id={`model-${place}`} role="option" aria-selected={place === at} class={isPresent(one) ? "chosen" : ""} onClick={() => choose(one.name)}>
              <span>{one.name}</span>
              <small>{aboutModel(one)}</small>
            </li>
          ))}
        </ul>
        <div class="dialog-actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={!wanted}>
            {wanted === now && !goesOn ? "Keep the model" : `Use ${wanted}`}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
