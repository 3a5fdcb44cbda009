/** The colours of an extension's theme as custom properties of the page. */

const SLOTS: Record<string, string[]> = {
  text: ["--ink"],
  muted: ["--soft"],
  very_muted: ["--faint"],
  background: ["--paper", "--surface", "--sunken", "--accent-ink"],
  border: ["--line-strong"],
  muted_border: ["--line"],
  primary: ["--accent"],
  success: ["--good"],
  warning: ["--warn"],
  error: ["--bad"],
  md_keyword: ["--code-keyword"],
  md_string: ["--code-string"],
  md_number: ["--code-number"],
  md_comment: ["--code-comment"],
  md_heading: ["--code-title"],
};
const HEX = /^#?([0-9a-f]{3}|[0-9a-f]{6})$/i;

/** Uses only colours with a light and a dark variant: half a pair might be unreadable. */
export function themeProperties(theme: unknown): Map<string, string> {
  const properties = new Map<string, string>();
  const colors = (theme as { colors?: Record<string, { light?: string; dark?: string }> } | undefined)?.colors ?? {};
  for (const [slot, names] of Object.entries(SLOTS)) {
    const light = HEX.exec(colors[slot]?.light ?? "")?.[1];
    const dark = HEX.exec(colors[slot]?.dark ?? "")?.[1];
    if (light && dark) for (const name of names) properties.set(name, `light-dark(#${light}, #${dark})`);
  }
  return properties;
}
