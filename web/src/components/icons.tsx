/** Icons in the colour of the surrounding text. */

import type { JSX } from "preact";

const PATHS: Record<string, string> = {
  menu: "M3 5h14M3 10h14M3 15h14",
  close: "M5 5l10 10M15 5L5 15",
  plus: "M10 4v12M4 10h12",
  search: "M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM13 13l4 4",
  send: "M10 16V4M5 9l5-5 5 5",
  stop: "M6 6h8v8H6z",
  attach: "M14.5 8.5l-5.6 5.6a2.6 2.6 0 0 1-3.7-3.7l6.3-6.3a1.8 1.8 0 0 1 2.6 2.6l-6.1 6.1a.9.9 0 0 1-1.3-1.3l5.2-5.2",
  down: "M5 8l5 5 5-5",
  right: "M8 5l5 5-5 5",
  left: "M12 5l-5 5 5 5",
  check: "M4 10.5l4 4 8-9",
  cross: "M5.5 5.5l9 9M14.5 5.5l-9 9",
  copy: "M7 7h9v9H7zM13 7V4H4v9h3",
  fork: "M6 4v5a3 3 0 0 0 3 3h3M6 9v7M12 9l3 3-3 3",
  back: "M8 5L4 9l4 4M4 9h7a5 5 0 0 1 5 5v1",
  label: "M4 4h6l6 6-6 6-6-6zM7 7h.01",
  edit: "M4 16l1-4 8-8 3 3-8 8zM11.5 5.5l3 3",
  todo: "M4 5.5l1.3 1.3L7.5 4.5M10 6h6M4 10.5l1.3 1.3 2.2-2.3M10 11h6M10 16h6M4.5 16h2",
  tree: "M5 4v9a2 2 0 0 0 2 2h3M5 8h5M13 8h3M13 15h3",
  context: "M4 15V9M8 15V5M12 15v-4M16 15V7",
  more: "M5 10h.010M10 10h.010M15 10h.01",
  columns: "M3 4h14v12H3zM10 4v12",
  terminal: "M4 6l4 4-4 4M10 15h6",
  file: "M6 3h6l4 4v10H6zM12 3v4h4",
  pencil: "M4 16l1-4 8-8 3 3-8 8z",
  refresh: "M2.5 10S5 5 10 5s7.5 5 7.5 5-2.5 5-7.5 5-7.5-5-7.5-5zM10 8a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
  globe: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM3 10h14M10 3c2.5 2 2.5 12 0 14M10 3c-2.5 2-2.5 12 0 14",
  agent: "M10 3v2M5 7h10v8H5zM8 10.5h.010M12 10.5h.010M3 10v3M17 10v3",
  gear: "M10 7a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM10 3v2M10 15v2M3 10h2M15 10h2M5 5l1.5 1.5M13.5 13.5L15 15M5 15l1.5-1.5M13.5 6.5L15 5",
  sun: "M10 7a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM10 2.5v2M10 15.5v2M2.5 10h2M15.5 10h2M4.7 4.7l1.4 1.4M13.9 13.9l1.4 1.4M4.7 15.3l1.4-1.4M13.9 6.1l1.4-1.4",
  moon: "M16 11.5A6.5 6.5 0 0 1 8.5 4a6.5 6.5 0 1 0 7.5 7.5z",
  auto: "M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14",
  folder: "M3 6h5l2 2h7v8H3z",
  clock: "M10 3.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM10 6.5V10l2.5 2",
  warning: "M10 4l7 12H3zM10 8.5v3.5M10 14h.01",
  thought: "M10 4c-4 0-6.5 2.4-6.5 5.2 0 1.7.9 3.1 2.3 4L5.5 16l3-1.7c.5.1 1 .1 1.5.1 4 0 6.5-2.4 6.5-5.2S14 4 10 4z",
  help: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM8 8a2 2 0 1 1 2.7 1.9c-.5.2-.7.5-.7 1.1M10 13.8h.01",
  offline: "M3 3l14 14M6 11a5 5 0 0 1 2-1.5M3.5 8a9 9 0 0 1 3-2M10 6a9 9 0 0 1 6.5 2M10 15h.01",
  download: "M10 4v9M6 9l4 4 4-4M4 16h12",
  trash: "M4 6h12M8 6V4h4v2M6 6l.7 10h6.6L14 6",
  open: "M11 4h5v5M16 4l-7 7M9 5H4v11h11v-5",
  squeeze: "M4 4h12M4 16h12M10 6.5v2.5M8.5 8L10 9.5 11.5 8M10 13.5V11M8.5 12l1.5-1.5 1.5 1.5",
};

export function Icon({ name, size = 18 }: { name: string; size?: number }): JSX.Element {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={PATHS[name] ?? PATHS["gear"]} fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
