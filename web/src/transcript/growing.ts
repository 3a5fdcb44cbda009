/** Text that arrives in fragments. Offsets count characters as the server does: code points, not UTF-16 units. */

export interface Growing {
  text: string;
  points: number;
}

export function pointsIn(text: string): number {
  let points = text.length;
  for (let at = 0; at < text.length - 1; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit >= 0xd800 && unit <= 0xdbff) {
      const next = text.charCodeAt(at + 1);
      if (next >= 0xdc00 && next <= 0xdfff) {
        points -= 1;
        at += 1;
      }
    }
  }
  return points;
}

/** With a fragment at its offset; null when something before it is missing. What stood there before is replaced. */
export function grown(before: Growing, offset: number, fragment: string): Growing | null {
  if (offset > before.points) return null;
  const after = offset + pointsIn(fragment);
  if (offset === before.points) return { text: before.text + fragment, points: after };
  return { text: firstPoints(before, offset) + fragment, points: after };
}

function firstPoints(of: Growing, count: number): string {
  if (of.text.length === of.points) return of.text.slice(0, count);
  return Array.from(of.text).slice(0, count).join("");
}
