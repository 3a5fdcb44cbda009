/** The colours that an extension has chosen for its session. */

import { effect } from "@preact/signals";
import { themeProperties } from "../model/theme-colors";
import { current } from "./open-session";

export function followTheme(): void {
  let set: string[] = [];
  effect(() => {
    const properties = themeProperties(current.value?.view.value.live.get("theme"));
    const { style } = document.documentElement;
    for (const name of set) style.removeProperty(name);
    set = [...properties.keys()];
    for (const [name, value] of properties) style.setProperty(name, value);
  });
}
