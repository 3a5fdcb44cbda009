/** Server-sent events out of pieces of text, however they were cut. */

export interface ServerEvent {
  id: string;
  /** Empty for an event without one. */
  name: string;
  data: string;
}

export class EventReader {
  private rest = "";
  private id = "";
  private name = "";
  private data: string[] = [];

  /** The events that this piece completes. */
  feed(piece: string): ServerEvent[] {
    const found: ServerEvent[] = [];
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      const event = this.line(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (event) found.push(event);
    }
    return found;
  }

  private line(line: string): ServerEvent | null {
    if (line === "") {
      const event = this.data.length ? { id: this.id, name: this.name, data: this.data.join("\n") } : null;
      this.data = [];
      this.id = "";
      this.name = "";
      return event;
    }
    if (line.startsWith(":")) return null;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.data.push(value);
    else if (name === "id") this.id = value;
    else if (name === "event") this.name = value;
    return null;
  }
}
