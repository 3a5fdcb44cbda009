import { effect } from "@preact/signals";
import { render } from "preact";
import { App, followAddress } from "./components/app";
import { access, enter } from "./state/app";
import { listenToKeys } from "./state/shortcuts";
import { keepListFresh } from "./state/session-list";
import { followTheme } from "./state/theme";
import "./style.css";

function startNative(root: HTMLElement): void {
  render(<App />, root);
  listenToKeys();
  followAddress();
  const stop = effect(() => {
    if (access.value !== "granted") return;
    keepListFresh();
    followTheme();
    queueMicrotask(() => stop());
  });
  void enter();
}

/** The server says which wire the page speaks. */
const wire = document.querySelector<HTMLMetaElement>("meta[name=ostler-wire]")?.content;
const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  if (wire === "agentapi") void import("./embedded").then((loaded) => loaded.startEmbedded(root));
  else startNative(root);
}
