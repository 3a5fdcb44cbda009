/** Asks for the token that the server printed. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { look } from "../state/app";
import { api } from "../wire/api";
import { Mark } from "./sidebar";

export function Login(): JSX.Element {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await api.login(token.trim());
      await look();
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
          This page needs the server's token. <code>ostler serve</code> prints an address that contains it; <code>ostler token</code> shows more.
        </p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="current-password" autofocus required value={token} aria-invalid={Boolean(problem)} aria-describedby="token-problem" onInput={(event) => setToken(event.currentTarget.value)} />
        <p id="token-problem" class="problem" role="alert">
          {problem}
        </p>
        <button type="submit" class="primary">
          Enter
        </button>
      </form>
    </main>
  );
}
