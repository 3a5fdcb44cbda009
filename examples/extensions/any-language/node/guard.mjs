// Refuses calls with paths in .git, counts them, and adds a tool that adds numbers.

import { Extension, block } from "./ostler-extension.mjs";

const extension = new Extension("node-guard", "1.0.0");

extension.intercept("tool_call", async ({ tool_args, session }) => {
  if (!/(^|\/)\.git(\/|$)/.test(String(tool_args.path ?? ""))) return;
  await extension.set("refused", (await extension.get("refused", 0, session)) + 1, session);
  return block("do not touch files in .git: use git");
});

extension.command("refused-paths", "How many paths were refused in this session", async (args, session) => {
  return `${await extension.get("refused", 0, session)} refused`;
});

extension.tool(
  "sum",
  "Adds numbers.",
  {
    type: "object",
    properties: { numbers: { type: "array", items: { type: "number" } } },
    required: ["numbers"],
  },
  ({ numbers }, call) => {
    let total = 0;
    for (const number of numbers) {
      total += number;
      call.output(`${total}\n`);
    }
    return String(total);
  },
  { kind: "read" },
);

extension.run();
