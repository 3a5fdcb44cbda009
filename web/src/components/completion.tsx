/** What may be meant by what is being typed: commands, their arguments, files. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Suggestion, commandIn, commandSuggestions, mentionAt, withMention } from "../text/prompt";
import type { OpenSession } from "../state/open-session";
import { api } from "../api/client";

const PAUSE = 70;

async function filesFor(session: OpenSession, text: string, caret: number): Promise<Suggestion[]> {
  const mention = mentionAt(text, caret);
  if (!mention) return [];
  const { files } = await api.files(session.view.value.cwd, mention.letters);
  return files.map((one) => ({
    label: one.path,
    hint: "",
    about: "",
    badge: "",
    ...withMention(text, mention.start, caret, one.mention),
  }));
}

async function argumentsFor(session: OpenSession, text: string): Promise<Suggestion[]> {
  const found = /^\/\S+\s/.test(text) ? commandIn(text, session.commands.value) : null;
  if (found?.command.kind !== "command") return [];
  const known = await api.argumentsOf(session.id, found.command.name, found.rest);
  return known.arguments.slice(0, 12).map((one) => {
    const made = `/${found.command.name} ${one}`;
    return { label: one, hint: "", about: "", badge: "", text: made, caret: made.length };
  });
}

/** Those for the text up to the caret; those that the server is asked for come a moment later. */
export function useSuggestions(session: OpenSession, text: string, caret: number): Suggestion[] {
  const [asked, setAsked] = useState<{ of: string; found: Suggestion[] }>({ of: "", found: [] });
  const known = commandSuggestions(text, session.commands.value);
  const isAsking = !known.length && (mentionAt(text, caret) !== null || /^\/\S+\s/.test(text));
  useEffect(() => {
    if (!isAsking) return undefined;
    let isGone = false;
    const timer = setTimeout(() => {
      const work = mentionAt(text, caret) ? filesFor(session, text, caret) : argumentsFor(session, text);
      work.then(
        (found) => isGone || setAsked({ of: text, found }),
        () => isGone || setAsked({ of: text, found: [] }),
      );
    }, PAUSE);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [text, caret, isAsking]);
  if (known.length || !isAsking) return known;
  return asked.of === text ? asked.found : [];
}

export function Completion({ found, marked, choose }: { found: Suggestion[]; marked: number; choose: (one: Suggestion) => void }): JSX.Element | null {
  useEffect(() => {
    document.getElementById(`completion-${marked}`)?.scrollIntoView({ block: "nearest" });
  }, [marked]);
  if (!found.length) return null;
  return (
    <ul class="completion" role="listbox" id="completion" aria-label="Suggestions">
      {found.map((one, place) => (
        <li key={one.label} id={`completion-${place}`} role="option" aria-selected={place === marked} onMouseDown={(event) => { event.preventDefault(); choose(one); }}>
          <strong>{one.label}</strong>
          {one.hint && <span class="arguments">{one.hint}</span>}
          <span class="description">{one.about}</span>
          {one.badge && <span class="badge">{one.badge}</span>}
        </li>
      ))}
    </ul>
  );
}
