/** Parses JSON that is still being written: open values are closed, cut-off ones are left out. */

class Cut extends Error {}

class Reader {
  private at = 0;
  constructor(private readonly text: string) {}

  private blanks(): void {
    while (this.at < this.text.length && " \t\n\r".includes(this.text[this.at] as string)) this.at += 1;
  }

  private next(): string {
    this.blanks();
    const character = this.text[this.at];
    if (character === undefined) throw new Cut();
    return character;
  }

  value(): unknown {
    const first = this.next();
    if (first === "{") return this.object();
    if (first === "[") return this.array();
    if (first === '"') return this.string();
    return this.word();
  }

  private object(): Record<string, unknown> {
    const result: Record<string, unknown> = {};
    this.at += 1;
    try {
      while (this.next() !== "}") {
        if (this.text[this.at] === ",") this.at += 1;
        if (this.next() !== '"') return result;
        const closedAt = this.at;
        const name = this.string();
        if (this.text[this.at - 1] !== '"' || this.at === closedAt + 1) return result;
        if (this.next() !== ":") return result;
        this.at += 1;
        Object.defineProperty(result, name, { value: this.value(), enumerable: true, configurable: true, writable: true });
      }
      this.at += 1;
    } catch (error) {
      if (!(error instanceof Cut)) throw error;
    }
    return result;
  }

  private array(): unknown[] {
    const result: unknown[] = [];
    this.at += 1;
    try {
      while (this.next() !== "]") {
        if (this.text[this.at] === ",") this.at += 1;
        if (this.next() === "]") break;
        const before = this.at;
        result.push(this.value());
        if (this.at === before) return result;
      }
      this.at += 1;
    } catch (error) {
      if (!(error instanceof Cut)) throw error;
    }
    return result;
  }

  private string(): string {
    const start = this.at;
    let end = start + 1;
    while (end < this.text.length && this.text[end] !== '"') end += this.text[end] === "\\" ? 2 : 1;
    const closed = end < this.text.length;
    this.at = Math.min(end + 1, this.text.length);
    const inside = this.text.slice(start + 1, Math.min(end, this.text.length));
    // A cut-off escape and half a surrogate pair are left out.
    const whole = closed ? inside : withoutCutEscape(inside);
    try {
      return JSON.parse(`"${whole.replace(/[\u0000-\u001f]/g, (character) => JSON.stringify(character).slice(1, -1))}"`) as string;
    } catch {
      return whole;
    }
  }

  private word(): unknown {
    const word = /^[^\s,\]}:"]+/.exec(this.text.slice(this.at))?.[0] ?? "";
    this.at += word.length;
    const isCut = this.at >= this.text.length;
    try {
      return JSON.parse(word);
    } catch {
      const value = ["true", "false", "null"].find((literal) => isCut && literal.startsWith(word));
      if (value === "true") return true;
      if (value === "false") return false;
      if (value === "null") return null;
      throw new Cut();
    }
  }
}

function withoutCutEscape(inside: string): string {
  const backslashes = /\\+$/.exec(inside)?.[0].length ?? 0;
  if (backslashes % 2) return inside.slice(0, -1);
  return inside.replace(/(^|[^\\])((?:\\\\)*)\\u[0-9a-fA-F]{0,3}$/, "$1$2").replace(/\\u[dD][89abAB][0-9a-fA-F]{2}$/, "");
}

/** The value of a JSON text so far; undefined before it starts. */
export function partialJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    try {
      return new Reader(text).value();
    } catch (error) {
      if (error instanceof Cut) return undefined;
      throw error;
    }
  }
}

/** The arguments of a call as far as they are written. */
export function partialArguments(text: string): Record<string, unknown> {
  const value = text ? partialJson(text) : undefined;
  return value && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
