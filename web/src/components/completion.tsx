/** Completion in the composer: commands, their arguments, files. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { OpenSession } from "../state/open-session";
import { type Suggestion, commandSuggestions, insertMention, mentionBefore, parseCommand } from "../text/prompt";

/** Milliseconds after the last key. */
const DELAY = 70;

async function filesFor(session: OpenSession, text: string, caret: number): Promise<Suggestion[]> {
  const mention = mentionBefore(text, caret);
  if (!mention) return [];
  const { files } = await api.files(session.view.value.cwd, mention.letters);
  return files.map((file) => ({
    label: file.path,
    hint: "",
    description: "",
    badge: "",
    ...insertMention(text, mention.start, caret, file.mention),
  }));
}

async function argumentsFor(session: OpenSession, text: string): Promise<Suggestion[]> {
  const typed = /^\/\S+\s/.test(text) ? parseCommand(text, session.commands.value) : null;
  if (typed?.command.kind !== "command") return [];
  const { name } = typed.command;
  const response = await api.commandArguments(session.id, name, typed.rest);
  return response.arguments.slice(0, 12).map((argument) => {
    const completed = `/${name} ${argument}`;
    return { label: argument, hint: "", description: "", badge: "", text: completed, caret: completed.length };
  });
}

/** The suggestions for the text before the caret. Those from the server come a moment later. */
export function useSuggestions(session: OpenSession, text: string, caret: number): Suggestion[] {
  const [response, setResponse] = useState<{ text: string; suggestions: Suggestion[] }>({ text: "", suggestions: [] });
  const commands = commandSuggestions(text, session.commands.value);
  const needsServer = !commands.length && (mentionBefore(text, caret) !== null || /^\/\S+\s/.test(text));
  useEffect(() => {
    if (!needsServer) return undefined;
    let isGone = false;
    const timer = setTimeout(() => {
      const request = mentionBefore(text, caret) ? filesFor(session, text, caret) : argumentsFor(session, text);
      request.then(
        (suggestions) => isGone || setResponse({ text, suggestions }),
        () => isGone || setResponse({ text, suggestions: [] }),
      );
    }, DELAY);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [text, caret, needsServer]);
  if (commands.length || !needsServer) return commands;
  return response.text === text ? response.suggestions : [];
}

export function Completion({ suggestions, marked, choose }: { suggestions: Suggestion[]; marked: number; choose: (suggestion: Suggestion) => void }): JSX.Element | null {
  useEffect(() => {
    document.getElementById(`completion-${marked}`)?.scrollIntoView({ block: "nearest" });
  }, [marked]);
  if (!suggestions.length) return null;
  return (
    <ul class="completion" role="listbox" id="completion" aria-label="Suggestions">
      {suggestions.map((suggestion, index) => (
        <li key={suggestion.label} id={`completion-${index}`} role="option" aria-selected={index === marked} onMouseDown={(event) => { event.preventDefault(); choose(suggestion); }}>
          <strong>{suggestion.label}</strong>
          {suggestion.hint && <span class="arguments">{suggestion.hint}</span>}
          <span class="description">{suggestion.description}</span>
          {suggestion.badge && <span class="badge">{suggestion.badge}</span>}
        </li>
      ))}
    </ul>
  );
}
