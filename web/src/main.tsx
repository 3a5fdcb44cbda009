import { effect } from "@preact/signals";
import { render } from "preact";
import { App, openCurrentSession } from "./components/app";
import { access, logIn } from "./state/app";
import { followSessionList } from "./state/session-list";
import { installShortcuts } from "./state/shortcuts";
import { applyTheme } from "./state/theme";
import "./style.css";

function startNative(root: HTMLElement): void {
  render(<App />, root);
  installShortcuts();
  openCurrentSession();
  const stop = effect(() => {
    if (access.value !== "granted") return;
    followSessionList();
    applyTheme();
    queueMicrotask(() => stop());
  });
  void logIn();
}

/** The API of the server. */
const wire = document.querySelector<HTMLMetaElement>("meta[name=ostler-wire]")?.content;
const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  if (wire === "agentapi") void import("./embedded").then((loaded) => loaded.startEmbedded(root));
  else startNative(root);
}
