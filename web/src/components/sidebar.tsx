/** The sessions: found by title and by what was said in them. */

import type { JSX } from "preact";
import { ago, shortPath } from "../text/format";
import { drawerOpen, mayAct, nextTheme, overlay, theme } from "../state/app";
import { agentName } from "../state/agent-session";
import { current } from "../state/open-session";
import { addressOf, goTo, sessionId } from "../state/route";
import { asked, hits, listQuery, listState, loadMore, nextPage, searchFor, sessions } from "../state/session-list";
import type { SearchHit, SessionSummary } from "../api/types";
import { Icon } from "./icons";

const STATES: Record<string, string> = {
  running: "running",
  waiting: "waits for you",
  failed: "failed",
  interrupted: "interrupted",
  cut: "cut off",
  limit: "ended by a limit",
};

function open(event: MouseEvent, session: string, fact = 0): void {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  goTo(session, fact);
  drawerOpen.value = false;
}

/** Of the session that is open here more is known than the list tells. */
function standingOf(one: SessionSummary): string {
  const here = current.value?.id === one.id ? current.value : null;
  const view = here?.view.value;
  if (!view?.caughtUp) return one.status ?? "";
  if (here?.isCut.value) return "cut";
  return view.run ? (view.run.waiting ? "waiting" : "running") : view.lastEnd;
}

function Row({ one, now }: { one: SessionSummary; now: number }): JSX.Element {
  const isHere = one.id === sessionId.value;
  const state = standingOf(one);
  const name = one.title || one.preview || "New session";
  const isAsked = asked.value.some((question) => question.session === one.id);
  const sign = isAsked ? "waiting" : state;
  return (
    <li>
      <a href={addressOf(one.id)} class={isHere ? "row here" : "row"} aria-current={isHere ? "page" : undefined} onClick={(event) => open(event, one.id)}>
        <span class={`dot ${sign}`} title={STATES[sign]} />
        <span class="row-text">
          <span class="row-title">{name}</span>
          <span class="row-about">
            {one.agent && <span class="row-agent">{agentName(one.agent.type)}</span>}
            {shortPath(one.cwd, 1)}
            {STATES[sign] && <em>{STATES[sign]}</em>}
          </span>
        </span>
        <time dateTime={new Date(one.updated_ms).toISOString()}>{ago(one.updated_ms, now)}</time>
      </a>
    </li>
  );
}

function Found({ hit, now }: { hit: SearchHit; now: number }): JSX.Element {
  return (
    <li>
      <a href={addressOf(hit.session)} class="row found-row" onClick={(event) => open(event, hit.session, hit.seq)}>
        <span class="row-text">
          <span class="snippet">{hit.snippet}</span>
          <span class="row-about">{hit.title ?? ""}</span>
        </span>
        <time>{ago(hit.time_ms, now)}</time>
      </a>
    </li>
  );
}

const THEMES = { auto: "Colours of the system", light: "Light", dark: "Dark" };

export function ThemeButton(): JSX.Element {
  return (
    <button type="button" class="quiet" aria-label={`Colours: ${THEMES[theme.value]}. Change`} title={THEMES[theme.value]} onClick={nextTheme}>
      <Icon name={theme.value === "light" ? "sun" : theme.value === "dark" ? "moon" : "auto"} />
    </button>
  );
}

export function Sidebar(): JSX.Element {
  const now = Date.now();
  const query = listQuery.value.trim();
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
      <button type="button" class="new-session" disabled={!mayAct()} onClick={() => { overlay.value = "new"; }}>
        <Icon name="plus" size={16} /> New session <kbd aria-hidden="true">n</kbd>
      </button>
      <label class="search-field">
        <Icon name="search" size={15} />
        <input id="session-search" type="search" placeholder="Search" aria-label="Search sessions and messages" value={listQuery.value} onInput={(event) => searchFor(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Escape") { searchFor(""); event.currentTarget.blur(); } }} />
      </label>
      <div class="list-scroll">
        <ul class="session-list" aria-label={query ? "Sessions found" : "Sessions"}>
          {sessions.value.map((one) => (
            <Row key={one.id} one={one} now={now} />
          ))}
        </ul>
        {hits.value.length > 0 && (
          <>
            <h2 class="list-title">In messages</h2>
            <ul class="session-list" aria-label="Messages found">
              {hits.value.map((hit) => (
                <Found key={`${hit.session}/${hit.seq}`} hit={hit} now={now} />
              ))}
            </ul>
          </>
        )}
        {nextPage.value && !query && (
          <button type="button" class="quiet more" onClick={loadMore}>
            Earlier sessions
          </button>
        )}
        {listState.value === "ready" && !sessions.value.length && !hits.value.length && <p class="hint">{query ? "Nothing found." : "No sessions yet."}</p>}
        {listState.value === "failed" && <p class="hint">The list cannot be read now.</p>}
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
