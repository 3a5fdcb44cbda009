/** The login form. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { loginLinkProblem, logInWith } from "../state/app";
import { Mark } from "./sidebar";

export function Login({ onLogin }: { onLogin: () => unknown }): JSX.Element {
  const [token, setToken] = useState("");
  const [onlyThisTab, setOnlyThisTab] = useState(false);
  const [problem, setProblem] = useState(loginLinkProblem.value);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await logInWith(token.trim(), onlyThisTab);
      await onLogin();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <main class="login">
      <form onSubmit={(event) => void submit(event)}>
        <h1>
          <Mark /> Ostler
        </h1>
        <p>
          Enter a token: <code>ostler token new NAME</code> creates one. Or open a login link: <code>ostler serve</code> prints one to a terminal, and <code>ostler token link</code> another. It works once.
        </p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="current-password" autofocus required value={token} aria-invalid={Boolean(problem)} aria-describedby="token-problem" onInput={(event) => setToken(event.currentTarget.value)} />
        <label class="check">
          <input type="checkbox" checked={onlyThisTab} onChange={(event) => setOnlyThisTab(event.currentTarget.checked)} /> Only in this tab
        </label>
        <p id="token-problem" class="problem" role="alert">
          {problem}
        </p>
        <button type="submit" class="primary">
          Log in
        </button>
      </form>
    </main>
  );
}
