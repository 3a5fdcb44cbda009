/** Applies the theme that an extension has chosen for its session. */

import { computed, effect } from "@preact/signals";
import { themeProperties } from "../text/theme-colors";
import { current } from "./open-session";

export function applyTheme(): void {
  let names: string[] = [];
  const chosen = computed(() => current.value?.view.value.liveValues.get("theme"));
  effect(() => {
    const properties = themeProperties(chosen.value);
    const { style } = document.documentElement;
    for (const name of names) style.removeProperty(name);
    names = [...properties.keys()];
    for (const [name, value] of properties) style.setProperty(name, value);
  });
}
