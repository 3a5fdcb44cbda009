/** The language of a file by its name. Apart from `highlight`, which is loaded late. */

const BY_EXTENSION: Record<string, string> = {
  sh: "bash", bash: "bash", zsh: "bash", c: "c", h: "c", cc: "cpp", cpp: "cpp", hpp: "cpp", cs: "csharp", css: "css",
  diff: "diff", patch: "diff", go: "go", ini: "ini", toml: "ini", cfg: "ini", java: "java", js: "javascript",
  mjs: "javascript", cjs: "javascript", jsx: "javascript", json: "json", jsonl: "json", kt: "kotlin", lua: "lua",
  mk: "makefile", md: "markdown", php: "php", py: "python", pyi: "python", rb: "ruby", rs: "rust", sql: "sql",
  swift: "swift", ts: "typescript", tsx: "typescript", html: "xml", xml: "xml", svg: "xml", vue: "xml", yaml: "yaml",
  yml: "yaml",
};
const BY_NAME: Record<string, string> = { makefile: "makefile", dockerfile: "dockerfile", gemfile: "ruby" };

export function languageOf(path: string): string {
  const name = path.split("/").at(-1)?.toLowerCase() ?? "";
  return BY_NAME[name] ?? BY_EXTENSION[name.split(".").at(-1) ?? ""] ?? "";
}
