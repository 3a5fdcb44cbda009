/** An xterm.js terminal in a box that scrolls. Loaded with the first terminal. */

import { type ITheme, Terminal } from "@xterm/xterm";
import { CollapsedRows } from "./collapsed-rows";
import "@xterm/xterm/css/xterm.css";

const MIN_FONT_SIZE = 10;
const MAX_FONT_SIZE = 14;
/** A terminal with more rows than any window needs no scrollback. */
const MANY_ROWS = 200;
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

/** Queries of an agent to its terminal: the server has answered them. */
const QUERIES = [{ final: "c" }, { prefix: ">", final: "c" }, { prefix: "=", final: "c" }, { final: "n" }, { prefix: "?", final: "n" }, { intermediates: "$", final: "p" }, { prefix: "?", intermediates: "$", final: "p" }, { prefix: "?", final: "u" }, { prefix: ">", final: "q" }];
const COLOR_QUERIES = [4, 10, 11, 12];
const FOCUS = /^\x1b\[[IO]$/;

export interface Owner {
  typed(keys: string): void;
  /** The person left the terminal. */
  left(): void;
}

export class XtermView {
  private readonly terminal: Terminal;
  private readonly rows: HTMLElement;
  private readonly width: number;
  private readonly collapsed: CollapsedRows;
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
      fontSize: MAX_FONT_SIZE,
      theme: this.colors(),
      minimumContrastRatio: 4.5,
      disableStdin: isReadOnly,
      cursorBlink: false,
      cursorInactiveStyle: isReadOnly ? "none" : "outline",
      scrollback: SCROLLBACK,
    });
    this.ignoreQueries();
    openWithoutInlineStyles(this.terminal, this.rows);
    this.terminal.onData((keys) => {
      if (!FOCUS.test(keys)) owner.typed(keys);
      this.follow();
    });
    this.terminal.attachCustomKeyEventHandler((event) => this.isForTerminal(event, owner));
    this.collapsed = new CollapsedRows(this.terminal, this.screen);
    this.terminal.onRender(({ start, end }) => {
      this.collapsed.read(start, end);
      this.trim();
    });
    this.watch();
  }

  private ignoreQueries(): void {
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
    // The wheel scrolls a box that overflows: xterm.js would turn it into keys.
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
    const colors = Object.entries(COLORS).map(([slot, name]) => {
      probe.style.color = `var(${name})`;
      return [slot, getComputedStyle(probe).color];
    });
    probe.remove();
    return Object.fromEntries(colors) as ITheme;
  }

  resize(columns: number, rows: number): void {
    this.terminal.options.scrollback = rows > MANY_ROWS ? 0 : SCROLLBACK;
    this.terminal.resize(columns, rows);
    this.fit();
  }

  /** The largest font, within bounds, that fits all columns. */
  private fit(): void {
    const available = this.box.clientWidth - 2 * parseFloat(getComputedStyle(this.box).paddingLeft);
    if (available <= 0) return;
    const size = Math.floor((available / this.terminal.cols / this.width) * 4) / 4;
    this.terminal.options.fontSize = Math.max(MIN_FONT_SIZE, Math.min(MAX_FONT_SIZE, size));
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

  /** Hides empty rows: a terminal may have a thousand. */
  private trim(): void {
    const { rowHeight } = this.collapsed;
    const visible = this.collapsed.update(this.box.clientHeight / rowHeight);
    this.rows.style.height = `${Math.ceil(rowHeight * visible)}px`;
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

/** The width of a letter relative to the font size. */
function letterWidth(font: string): number {
  const context = document.createElement("canvas").getContext("2d");
  if (!context) return 0.6;
  context.font = `100px ${font}`;
  return context.measureText("W").width / 100;
}

/** Internals of xterm.js: the one place that writes `style` attributes. A browser test notices when it moves. */
interface Internals {
  _core: { _renderService: { _renderer: { value: { _rowFactory: { _addStyle(element: HTMLElement, style: string): void } } } } };
}

function adoptedSheet(create: (tag: string) => HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  const element = create("i");
  element.hidden = true;
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(element, "textContent", { set: (css: string) => sheet.replaceSync(css) });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

/** Opens a terminal without inline styles, which the content security policy forbids: it uses the CSSOM instead.
 *
 * xterm.js creates all its style sheets while it opens.
 */
export function openWithoutInlineStyles(terminal: Terminal, parent: HTMLElement): void {
  const create = document.createElement.bind(document) as (tag: string) => HTMLElement;
  document.createElement = ((tag: string) => (tag === "style" ? adoptedSheet(create) : create(tag))) as typeof document.createElement;
  try {
    terminal.open(parent);
  } finally {
    delete (document as Partial<Document>).createElement; // the prototype's method is visible again
  }
  (terminal as unknown as Internals)._core._renderService._renderer.value._rowFactory._addStyle = (element, style) => {
    element.style.cssText += style;
  };
}
