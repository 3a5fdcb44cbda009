import { effect } from "@preact/signals";
import { render } from "preact";
import { App, followAddress } from "./parts/app";
import { access, enter } from "./state/app";
import { listenToKeys } from "./state/keys";
import { keepListFresh } from "./state/session-list";
import { followTheme } from "./state/theme";
import "./style.css";

const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(<App />, root);
}
listenToKeys();
followAddress();
const stop = effect(() => {
  if (access.value !== "granted") return;
  keepListFresh();
  followTheme();
  queueMicrotask(() => stop());
});
void enter();
