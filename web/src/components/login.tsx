/** The login form. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { loginLinkProblem, refresh } from "../state/app";
import { Mark } from "./sidebar";

export function Login(): JSX.Element {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(loginLinkProblem.value);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await api.login(token.trim());
      await refresh();
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
          Enter a token: <code>ostler token new NAME</code> creates one. Or open the link that <code>ostler serve</code> prints; it works once.
        </p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="current-password" autofocus required value={token} aria-invalid={Boolean(problem)} aria-describedby="token-problem" onInput={(event) => setToken(event.currentTarget.value)} />
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
