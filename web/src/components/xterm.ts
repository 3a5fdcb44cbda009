/** A terminal of xterm.js in a box that scrolls. Loaded when one is looked at. */

import { type ITheme, Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { LeftOutRows } from "./collapsed-rows";
import { openStrictly } from "./strict-document";

const SMALLEST = 10;
const LARGEST = 14;
/** A terminal that is higher than any window needs no lines beyond it. */
const HIGH = 200;
const SCROLLBACK = 5000;

const COLORS: Partial<Record<keyof ITheme, string>> = {
  background: "--sunken",
  foreground: "--ink",
  cursor: "--accent",
  cursorAccent: "--paper",
  selectionBackground: "--line-strong",
  black: "--line",
  red: "--bad",
  green: "--good",
  yellow: "--warn",
  blue: "--code-title",
  magenta: "--code-keyword",
  cyan: "--code-cyan",
  white: "--soft",
  brightBlack: "--faint",
  brightRed: "--bad",
  brightGreen: "--good",
  brightYellow: "--warn",
  brightBlue: "--code-title",
  brightMagenta: "--code-keyword",
  brightCyan: "--code-cyan",
  brightWhite: "--ink",
};

/** What an agent asks its terminal: it was answered where the agent runs. */
const QUERIES = [{ final: "c" }, { prefix: ">", final: "c" }, { prefix: "=", final: "c" }, { final: "n" }, { prefix: "?", final: "n" }, { intermediates: "$", final: "p" }, { prefix: "?", intermediates: "$", final: "p" }, { prefix: "?", final: "u" }, { prefix: ">", final: "q" }];
const COLOR_QUERIES = [4, 10, 11, 12];
const FOCUS = /^\x1b\[[IO]$/;

export interface Owner {
  typed(keys: string): void;
  /** The keyboard is wanted elsewhere. */
  left(): void;
}

export class XtermView {
  private readonly terminal: Terminal;
  private readonly rows: HTMLElement;
  private readonly width: number;
  private readonly leftOut: LeftOutRows;
  private isFollowing = true;
  private readonly ends: (() => void)[] = [];

  constructor(
    private readonly box: HTMLElement,
    isReadOnly: boolean,
    owner: Owner,
  ) {
    const fontFamily = getComputedStyle(box).getPropertyValue("--mono");
    this.width = letterWidth(fontFamily);
    this.rows = document.createElement("div");
    this.rows.className = "terminal-rows";
    box.replaceChildren(this.rows);
    this.terminal = new Terminal({
      fontFamily,
      fontSize: LARGEST,
      theme: this.colors(),
      minimumContrastRatio: 4.5,
      disableStdin: isReadOnly,
      cursorBlink: false,
      cursorInactiveStyle: isReadOnly ? "none" : "outline",
      scrollback: SCROLLBACK,
    });
    this.leaveQueriesUnanswered();
    openStrictly(this.terminal, this.rows);
    this.terminal.onData((keys) => {
      if (!FOCUS.test(keys)) owner.typed(keys);
      this.follow();
    });
    this.terminal.attachCustomKeyEventHandler((event) => this.isForTerminal(event, owner));
    this.leftOut = new LeftOutRows(this.terminal, this.screen);
    this.terminal.onRender(({ start, end }) => {
      this.leftOut.see(start, end);
      this.trim();
    });
    this.watch();
  }

  private leaveQueriesUnanswered(): void {
    const { parser } = this.terminal;
    for (const id of QUERIES) parser.registerCsiHandler(id, () => true);
    parser.registerDcsHandler({ intermediates: "$", final: "q" }, () => true);
    for (const id of COLOR_QUERIES) parser.registerOscHandler(id, (data) => data.includes("?"));
  }

  private isForTerminal(event: KeyboardEvent, owner: Owner): boolean {
    if (event.key === "Escape" && event.shiftKey) {
      if (event.type === "keydown") owner.left();
      return false;
    }
    const key = event.key.toLowerCase();
    if (event.ctrlKey && !event.altKey && key === "v") return false;
    return !(event.ctrlKey && !event.altKey && key === "c" && (event.shiftKey || this.terminal.hasSelection()));
  }

  private watch(): void {
    const fit = new ResizeObserver(() => this.fit());
    fit.observe(this.box);
    const recolor = (): void => {
      this.terminal.options.theme = this.colors();
    };
    const colors = new MutationObserver(recolor);
    colors.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "style"] });
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", recolor);
    const scrolled = (): void => {
      const { scrollHeight, scrollTop, clientHeight } = this.box;
      this.isFollowing = scrollHeight - scrollTop - clientHeight < 40;
    };
    this.box.addEventListener("scroll", scrolled, { passive: true });
    // Where the box has more than is seen, the wheel moves it: xterm would make keys of it.
    const wheel = (event: WheelEvent): void => {
      const isLong = this.box.scrollHeight > this.box.clientHeight + 1;
      if (isLong || (!this.terminal.buffer.active.baseY && this.terminal.modes.mouseTrackingMode === "none")) event.stopPropagation();
    };
    this.box.addEventListener("wheel", wheel, { capture: true, passive: true });
    this.ends.push(
      () => fit.disconnect(),
      () => colors.disconnect(),
      () => scheme.removeEventListener("change", recolor),
      () => this.box.removeEventListener("scroll", scrolled),
      () => this.box.removeEventListener("wheel", wheel, { capture: true }),
    );
  }

  private colors(): ITheme {
    const probe = document.createElement("span");
    this.box.append(probe);
    const found = Object.entries(COLORS).map(([slot, name]) => {
      probe.style.color = `var(${name})`;
      return [slot, getComputedStyle(probe).color];
    });
    probe.remove();
    return Object.fromEntries(found) as ITheme;
  }

  resize(columns: number, rows: number): void {
    this.terminal.options.scrollback = rows > HIGH ? 0 : SCROLLBACK;
    this.terminal.resize(columns, rows);
    this.fit();
  }

  /** Letters as large as lets all columns be seen, within bounds. */
  private fit(): void {
    const room = this.box.clientWidth - 2 * parseFloat(getComputedStyle(this.box).paddingLeft);
    if (room <= 0) return;
    const size = Math.floor((room / this.terminal.cols / this.width) * 4) / 4;
    this.terminal.options.fontSize = Math.max(SMALLEST, Math.min(LARGEST, size));
    this.trim();
  }

  reset(): void {
    this.terminal.reset();
  }

  write(bytes: Uint8Array): void {
    this.terminal.write(bytes);
  }

  focus(): void {
    this.terminal.focus();
  }

  private get screen(): HTMLElement {
    return this.rows.querySelector(".xterm-screen") as HTMLElement;
  }

  /** Rows without anything are left out: a terminal may have a thousand. */
  private trim(): void {
    const { rowHeight } = this.leftOut;
    const shown = this.leftOut.show(this.box.clientHeight / rowHeight);
    this.rows.style.height = `${Math.ceil(rowHeight * shown)}px`;
    this.rows.style.width = `${Math.max(this.screen.offsetWidth, this.terminal.cols)}px`;
    if (this.isFollowing) this.follow();
  }

  private follow(): void {
    this.isFollowing = true;
    this.box.scrollTop = this.box.scrollHeight;
  }

  dispose(): void {
    for (const end of this.ends) end();
    this.terminal.dispose();
    this.rows.remove();
  }
}

/** Of one letter, in parts of the font's size. */
function letterWidth(font: string): number {
  const context = document.createElement("canvas").getContext("2d");
  if (!context) return 0.6;
  context.font = `100px ${font}`;
  return context.measureText("W").width / 100;
}
