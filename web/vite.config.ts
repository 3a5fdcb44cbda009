import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const here = dirname(fileURLToPath(import.meta.url));
const SOURCES = ["index.html", "package-lock.json", "package.json", "src", "tsconfig.json", "vite.config.ts"];

function filesUnder(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).flatMap((name) => filesUnder(join(path, name)));
}

/** SHA-256 over lines `<sha256 of a file>  <its path from here>`, sorted by path: a test computes it again. */
function sourcesHash(): string {
  const paths = SOURCES.flatMap((name) => filesUnder(join(here, name)))
    .map((path) => relative(here, path).split(sep).join("/"))
    .sort((first, second) => (first < second ? -1 : 1));
  const lines = paths.map(
    (path) => `${createHash("sha256").update(readFileSync(join(here, path))).digest("hex")}  ${path}\n`,
  );
  return createHash("sha256").update(lines.join("")).digest("hex");
}

const hashOfSources: Plugin = {
  name: "hash-of-sources",
  apply: "build",
  generateBundle() {
    this.emitFile({ type: "asset", fileName: "sources.sha256", source: `${sourcesHash()}\n` });
  },
};

/** The licenses of all packages in the page, which they require to be shown. */
const licenses: Plugin = {
  name: "licenses",
  apply: "build",
  generateBundle() {
    const folders = [...this.getModuleIds()].flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id)?.[0] ?? []);
    const texts = [...new Set(folders)].sort().map((folder) => {
      const license = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
      if (!license) throw new Error(`${folder} has no license`);
      return `${folder.split("/node_modules/").at(-1)}\n\n${readFileSync(join(folder, license), "utf8").trim()}\n`;
    });
    this.emitFile({ type: "asset", fileName: "licenses.txt", source: texts.join(`\n${"-".repeat(80)}\n\n`) });
  },
};

export default defineConfig({
  base: "./", // the server adds the way from each address to the files
  plugins: [hashOfSources, licenses],
  build: {
    outDir: "../src/ostler/server/page",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: true,
  },
  server: {
    proxy: { "/api": { target: process.env["OSTLER_SERVER"] ?? "http://127.0.0.1:8123", changeOrigin: true } },
  },
  test: { include: ["tests/**/*.test.ts"], environment: "node", testTimeout: 15_000 },
});
