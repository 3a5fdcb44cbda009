/** What a call would do, for the person who decides: the server made it from the files as they are now. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import type { CallPreview, OpenQuestion } from "../api/types";
import type { OpenSession } from "../state/open-session";
import { countHunks, editDiff, parseUnifiedDiff } from "../text/diff";
import { languageOf } from "../text/languages";
import { named } from "../text/format";
import { Highlighted } from "./code";
import { Diff } from "./diff";

/** The preview; undefined until it is there, null if the server has none. */
export function usePreview(session: OpenSession, question: OpenQuestion | undefined): CallPreview | null | undefined {
  const id = question?.asked.id ?? "";
  const [loaded, setLoaded] = useState<{ id: string; preview: CallPreview | null }>();
  useEffect(() => {
    if (!question?.asked.question.details) return;
    let isGone = false;
    const take = (preview: CallPreview | null): void => { if (!isGone) setLoaded({ id, preview }); };
    api
      .questionsOf(session.id)
      .then(({ questions }) => take(questions.find((other) => other.asked.id === id)?.preview ?? null))
      .catch(() => take(null));
    return () => { isGone = true; };
  }, [id]);
  if (!question?.asked.question.details) return null;
  return loaded?.id === id ? loaded.preview : undefined;
}

/** Scrolls to the first changed line. */
function Changes({ children, hunks }: { children: ComponentChildren; hunks: number }): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = element.current;
    const changed = box?.querySelector<HTMLElement>("td.added, td.removed");
    if (!box || !changed) return;
    const below = changed.getBoundingClientRect().top - box.getBoundingClientRect().top;
    box.scrollTop += Math.max(0, below - box.clientHeight / 3);
  }, []);
  return (
    <>
      <div class="call-details" ref={element}>
        {children}
      </div>
      {hunks > 0 && <p class="small-print">{hunks === 1 ? "1 change" : `${hunks} changes in this file`}</p>}
    </>
  );
}

/** Without a preview of the server: the arguments, with control and format characters named. */
function Arguments({ values }: { values: Record<string, unknown> }): JSX.Element | null {
  if (!Object.keys(values).length) return null;
  return (
    <pre class="call-details" tabIndex={0} aria-label="Arguments">
      {Object.entries(values).map(([name, value]) => `${named(name)}: ${named(typeof value === "string" ? value : JSON.stringify(value))}\n`)}
    </pre>
  );
}

export function CallDetails({ question, preview }: { question: OpenQuestion; preview: CallPreview | null | undefined }): JSX.Element | null {
  const details = question.asked.question.details ?? {};
  const path = preview?.path ?? "";
  const language = languageOf(path);
  const lines = useMemo(() => (preview?.diff ? parseUnifiedDiff(preview.diff) : editDiff(preview?.edits, true)), [preview]);
  if (preview === undefined) return <p class="small-print">Reading what it would change…</p>;
  if (preview === null) return details["tool"] || details["command"] ? <Arguments values={(details["arguments"] ?? { command: details["command"] }) as Record<string, unknown>} /> : null;
  const { command, content, note, target, marks = 0, arguments: others = {} } = preview;
  return (
    <>
      {path && (
        <p class="path">
          {path}
          {target && <small> leads to {target}</small>}
        </p>
      )}
      {marks > 0 && (
        <p class="deceptive" role="alert">
          {marks === 1 ? "1 hidden or misleading character" : `${marks} hidden or misleading characters`}, shown as ⟨…⟩
        </p>
      )}
      {note && <p class="note">{note}</p>}
      <Arguments values={others} />
      {command && (
        <pre class="call-details" tabIndex={0} aria-label="Command">
          <Highlighted code={command} language="bash" />
        </pre>
      )}
      {lines.length > 0 && (
        <Changes hunks={preview.hunks ?? countHunks(lines)}>
          <Diff lines={lines} language={language} />
        </Changes>
      )}
      {content && (
        <pre class="call-details" tabIndex={0} aria-label={`Content of ${path}`}>
          <Highlighted code={content} language={language} />
        </pre>
      )}
    </>
  );
}
