/** The dialog that chooses the model and its reasoning level. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { ModelInfo } from "../api/types";
import { attempt, overlay } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { shortTokens } from "../text/format";
import { Dialog } from "./dialog";

const LEVELS = ["off", "minimal", "low", "medium", "high"];
const MAX_MODELS = 60;

const close = (): void => {
  overlay.value = "";
};

function modelHint(model: ModelInfo): string {
  if (model.ready === false) return model.to_do || "no API key";
  const { window, prices } = model;
  return [window ? `${shortTokens(window)} window` : "", prices?.input ? `$${prices.input} / $${prices.output ?? "?"}` : ""].filter(Boolean).join(" · ");
}

/** `isFallback`: the chosen model continues a run whose model failed. */
export function ModelPicker({ session, isFallback = false }: { session: OpenSession; isFallback?: boolean }): JSX.Element {
  const view = session.view.value;
  const present = view.model || session.details.value?.model || "";
  const [models, setModels] = useState<ModelInfo[]>([]);
  const [defaultModel, setDefaultModel] = useState("");
  const [query, setQuery] = useState("");
  const [marked, mark] = useState(-1);
  const [level, setLevel] = useState(view.reasoning || session.details.value?.reasoning || "");
  useEffect(() => {
    void attempt(() => api.models(view.cwd)).then((response) => {
      if (!response) return;
      setModels(response.models);
      setDefaultModel(response.default ?? "");
    });
  }, []);
  useEffect(() => {
    document.querySelector("#models .chosen")?.scrollIntoView({ block: "nearest" });
  }, [models]);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = models.filter((model) => words.every((word) => `${model.name} ${(model.aliases ?? []).join(" ")}`.toLowerCase().includes(word)));
  const isPresent = (model: ModelInfo): boolean => [model.name, ...(model.aliases ?? [])].includes(present || defaultModel);
  const presentIndex = words.length ? -1 : matches.findIndex(isPresent);
  const visible = matches.slice(0, Math.max(MAX_MODELS, presentIndex + 1));
  const at = marked >= 0 ? Math.min(marked, visible.length - 1) : words.length ? 0 : -1;
  const selected = visible[at]?.name ?? (query.trim() || present);
  const info = models.find((model) => model.name === selected);
  const levels = info ? (info.reasoning ?? []) : LEVELS;
  const choose = (model: string): void => {
    if (isFallback) void session.continueWith(model);
    else void session.request({ type: "set_model", model, reasoning: level });
    close();
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const next = Math.max(0, Math.min(visible.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)));
    mark(next);
    document.getElementById(`model-${next}`)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <Dialog title={isFallback ? "Continue with another model" : "Model and reasoning"} onClose={close}>
      <form onSubmit={(event) => { event.preventDefault(); choose(selected); }}>
        {levels.length > 0 && !isFallback && (
          <fieldset class="levels">
            <legend>Reasoning</legend>
            {levels.map((choice) => (
              <label key={choice} class={choice === level ? "chip chosen" : "chip"}>
                <input type="radio" name="level" class="visually-hidden" checked={choice === level} onChange={() => setLevel(choice)} />
                {choice}
              </label>
            ))}
          </fieldset>
        )}
        <input type="text" role="combobox" aria-label="Find a model" aria-expanded="true" aria-controls="models" aria-activedescendant={at >= 0 ? `model-${at}` : undefined} autofocus value={query} placeholder={present || "Search, or enter a model name"} spellcheck={false} autocomplete="off" onInput={(event) => { setQuery(event.currentTarget.value); mark(-1); }} onKeyDown={key} />
        <ul class="models" id="models" role="listbox" aria-label="Models">
          {visible.map((model, index) => (
            <li key={model.name} id={`model-${index}`} role="option" aria-selected={index === at} class={isPresent(model) ? "chosen" : ""} onClick={() => choose(model.name)}>
              <span>{model.name}</span>
              <small>{modelHint(model)}</small>
            </li>
          ))}
        </ul>
        <div class="dialog-actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={!selected}>
            {selected === present && !isFallback ? "Keep the model" : `Use ${selected}`}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
