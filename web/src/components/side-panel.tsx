/** The side panel: to-do list, branches, context, permissions. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { api } from "../api/client";
import { allowedProfiles, attempt, canAct, panel } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { ContextPanel } from "./context-panel";
import { Icon } from "./icons";
import { TodoList } from "./todo-list";
import { TreePanel } from "./tree-panel";

const TITLES = { todo: "To do", tree: "Branches", context: "Context and cost", permissions: "Permissions" };

function PanelFrame({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  const element = useRef<HTMLElement>(null);
  useEffect(() => {
    element.current?.querySelector<HTMLElement>("h2")?.focus({ preventScroll: true });
  }, [title]);
  return (
    <aside class="panel" ref={element} aria-label={title}>
      <header>
        <h2 tabIndex={-1}>{title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={() => { panel.value = ""; }}>
          <Icon name="close" />
        </button>
      </header>
      <div class="panel-inside">{children}</div>
    </aside>
  );
}

export function SidePanel({ session }: { session: OpenSession }): JSX.Element | null {
  if (!panel.value) return null;
  return (
    <PanelFrame title={TITLES[panel.value]}>
      {panel.value === "todo" && (session.view.value.todo.length ? <TodoList items={session.view.value.todo} /> : <p class="hint">The list is empty.</p>)}
      {panel.value === "tree" && <TreePanel session={session} />}
      {panel.value === "context" && <ContextPanel session={session} />}
      {panel.value === "permissions" && <PermissionsPanel session={session} />}
    </PanelFrame>
  );
}

const SCOPES: Record<string, string> = { session: "in this session", project: "in this project", user: "in all projects" };

/** The permission profile, which changes between two runs. */
function ProfilePicker({ session, profile }: { session: OpenSession; profile: string }): JSX.Element | null {
  const choices = allowedProfiles();
  if (!profile) return null;
  const isFixed = !canAct() || session.view.value.run !== null || !session.details.value?.permissions;
  const choose = (chosen: string): void => {
    void attempt(() => api.setPermissions(session.id, chosen)).then(() => session.refresh());
  };
  return (
    <p>
      <label for="profile">Profile</label>{" "}
      <select id="profile" value={profile} disabled={isFixed} onChange={(event) => choose(event.currentTarget.value)}>
        {[...new Set([...choices, profile])].map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </p>
  );
}

export function PermissionsPanel({ session }: { session: OpenSession }): JSX.Element {
  const { permissions, rememberedRules } = session.view.value;
  return (
    <>
      <ProfilePicker session={session} profile={session.details.value?.permissions || permissions} />
      {!rememberedRules.length && <p class="hint">No remembered rules.</p>}
      <ul class="rules" aria-label="Remembered rules">
        {rememberedRules.map(({ rule, effect, scope }) => (
          <li key={`${scope}/${rule}`}>
            <span>
              {effect} <code>{rule}</code> <small>{SCOPES[scope] ?? scope}</small>
            </span>
            {canAct() && scope === "session" && (
              <button type="button" class="quiet small" aria-label={`Remove ${rule}`} title="Remove this rule" onClick={() => void session.request({ type: "revoke_permission", rule })}>
                <Icon name="close" size={14} />
              </button>
            )}
          </li>
        ))}
      </ul>
      {rememberedRules.some(({ scope }) => scope !== "session") && (
        <p class="small-print">
          <code>ostler permissions</code> lists and removes the rules beyond this session.
        </p>
      )}
    </>
  );
}
