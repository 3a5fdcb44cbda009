/** The list of sessions, and the search in titles and messages. */

import type { JSX } from "preact";
import type { SearchHit, SessionSummary } from "../api/types";
import { agentName } from "../state/agent-session";
import { canAct, drawerOpen, nextTheme, overlay, theme } from "../state/app";
import { current } from "../state/open-session";
import { addressOf, openSession, sessionId } from "../state/route";
import { hits, listState, loadMore, nextPage, questions, search, searchText, sessions } from "../state/session-list";
import { relativeTime, shortPath } from "../text/format";
import { Icon } from "./icons";

const STATES: Record<string, string> = {
  running: "running",
  waiting: "needs your answer",
  failed: "failed",
  interrupted: "interrupted",
  cut: "interrupted",
  limit: "limit reached",
};

function open(event: MouseEvent, session: string, fact = 0): void {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  openSession(session, fact);
  drawerOpen.value = false;
}

/** The status of a session; the open one is more up to date than the list. */
function statusOf(session: SessionSummary): string {
  const here = current.value?.id === session.id ? current.value : null;
  const view = here?.view.value;
  if (!view?.caughtUp) return session.status ?? "";
  if (here?.isInterrupted.value) return "cut";
  return view.run ? (view.run.waiting ? "waiting" : "running") : view.lastStatus;
}

function Row({ session, now }: { session: SessionSummary; now: number }): JSX.Element {
  const { id, title, preview, agent, cwd, updated_ms } = session;
  const isHere = id === sessionId.value;
  const hasQuestion = questions.value.some((question) => question.session === id);
  const status = hasQuestion ? "waiting" : statusOf(session);
  return (
    <li>
      <a href={addressOf(id)} class={isHere ? "row here" : "row"} aria-current={isHere ? "page" : undefined} onClick={(event) => open(event, id)}>
        <span class={`dot ${status}`} title={STATES[status]} />
        <span class="row-text">
          <span class="row-title">{title || preview || "New session"}</span>
          <span class="row-about">
            {agent && <span class="row-agent">{agentName(agent.type)}</span>}
            {shortPath(cwd, 1)}
            {STATES[status] && <em>{STATES[status]}</em>}
          </span>
        </span>
        <time dateTime={new Date(updated_ms).toISOString()}>{relativeTime(updated_ms, now)}</time>
      </a>
    </li>
  );
}

function SearchResult({ hit, now }: { hit: SearchHit; now: number }): JSX.Element {
  return (
    <li>
      <a href={addressOf(hit.session)} class="row found-row" onClick={(event) => open(event, hit.session, hit.seq)}>
        <span class="row-text">
          <span class="snippet">{hit.snippet}</span>
          <span class="row-about">{hit.title ?? ""}</span>
        </span>
        <time>{relativeTime(hit.time_ms, now)}</time>
      </a>
    </li>
  );
}

const THEMES = { auto: "System", light: "Light", dark: "Dark" };

export function ThemeButton(): JSX.Element {
  return (
    <button type="button" class="quiet" aria-label={`Theme: ${THEMES[theme.value]}. Switch`} title={`Theme: ${THEMES[theme.value]}`} onClick={nextTheme}>
      <Icon name={theme.value === "light" ? "sun" : theme.value === "dark" ? "moon" : "auto"} />
    </button>
  );
}

export function Sidebar(): JSX.Element {
  const now = Date.now();
  const query = searchText.value.trim();
  return (
    <nav class="sidebar" aria-label="Sessions">
      <div class="brand">
        <a href={addressOf("")} onClick={(event) => open(event, "")} aria-label="Ostler: all sessions">
          <Mark /> Ostler
        </a>
        <ThemeButton />
        <button type="button" class="quiet close-drawer" aria-label="Close" onClick={() => { drawerOpen.value = false; }}>
          <Icon name="close" />
        </button>
      </div>
      <button type="button" class="new-session" disabled={!canAct()} onClick={() => { overlay.value = "new"; }}>
        <Icon name="plus" size={16} /> New session <kbd aria-hidden="true">n</kbd>
      </button>
      <label class="search-field">
        <Icon name="search" size={15} />
        <input id="session-search" type="search" placeholder="Search" aria-label="Search sessions and messages" value={searchText.value} onInput={(event) => search(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Escape") { search(""); event.currentTarget.blur(); } }} />
      </label>
      <div class="list-scroll">
        <ul class="session-list" aria-label={query ? "Sessions found" : "Sessions"}>
          {sessions.value.map((session) => (
            <Row key={session.id} session={session} now={now} />
          ))}
        </ul>
        {hits.value.length > 0 && (
          <>
            <h2 class="list-title">In messages</h2>
            <ul class="session-list" aria-label="Messages found">
              {hits.value.map((hit) => (
                <SearchResult key={`${hit.session}/${hit.seq}`} hit={hit} now={now} />
              ))}
            </ul>
          </>
        )}
        {nextPage.value && !query && (
          <button type="button" class="quiet more" onClick={loadMore}>
            Earlier sessions
          </button>
        )}
        {listState.value === "ready" && !sessions.value.length && !hits.value.length && <p class="hint">{query ? "No results." : "No sessions yet."}</p>}
        {listState.value === "failed" && <p class="hint">The list could not be loaded.</p>}
      </div>
    </nav>
  );
}

export function Mark(): JSX.Element {
  return (
    <svg width="20" height="20" viewBox="0 0 32 32" aria-hidden="true" class="brand-mark">
      <path d="M9 5c-3 4-4 8-4 12 0 6 4.5 10 11 10s11-4 11-10c0-4-1-8-4-12l-3.5 1.5C21.5 10 22.5 13.5 22.5 17c0 3.7-2.5 5.8-6.5 5.8S9.5 20.7 9.5 17c0-3.5 1-7 3-10.5z" fill="currentColor" />
    </svg>
  );
}
