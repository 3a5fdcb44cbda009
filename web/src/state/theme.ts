/** The colours that an extension has chosen for its session. */

import { computed, effect } from "@preact/signals";
import { themeProperties } from "../text/theme-colors";
import { current } from "./open-session";

export function followTheme(): void {
  let set: string[] = [];
  const chosen = computed(() => current.value?.view.value.live.get("theme"));
  effect(() => {
    const properties = themeProperties(chosen.value);
    const { style } = document.documentElement;
    for (const name of set) style.removeProperty(name);
    set = [...properties.keys()];
    for (const [name, value] of properties) style.setProperty(name, value);
  });
}
