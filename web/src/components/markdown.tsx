/** Markdown from its tokens. While text streams in, only the changed blocks render again. */

import type { ComponentChildren, JSX } from "preact";
import { useMemo } from "preact/hooks";
import { safeAddress } from "../text/links";
import { type Token, type Tokens, decodeEntities, parseMarkdown } from "../text/markdown";
import { CodeBlock } from "./code";
import { memo } from "./memo";

const nested = (token: Token): Token[] | undefined => (token as Tokens.Generic).tokens;

function inline(tokens: Token[] | undefined): ComponentChildren[] {
  return (tokens ?? []).map((token) => {
    switch (token.type) {
      case "strong":
        return <strong>{inline(token.tokens)}</strong>;
      case "em":
        return <em>{inline(token.tokens)}</em>;
      case "del":
        return <del>{inline(token.tokens)}</del>;
      case "codespan":
        return <code>{token.text}</code>;
      case "br":
        return <br />;
      case "link":
        return <Link href={token.href}>{inline(token.tokens)}</Link>;
      case "image":
        return <Link href={token.href}>{`image: ${token.text || token.href}`}</Link>;
      case "html":
        return token.raw;
      case "checkbox":
        return null;
      default:
        return nested(token) ? inline(nested(token)) : decodeEntities((token as Tokens.Text).text ?? token.raw);
    }
  });
}

function Link({ href, children }: { href: string; children: ComponentChildren }): JSX.Element {
  const address = safeAddress(href);
  if (!address) return <span title={href}>{children}</span>;
  return (
    <a href={address} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

function List({ token }: { token: Tokens.List }): JSX.Element {
  const items = token.items.map((item) => (
    <li class={item.task ? "task" : undefined}>
      {item.task && <input type="checkbox" checked={Boolean(item.checked)} disabled aria-label={item.checked ? "done" : "open"} />}
      {item.tokens.map((child) => (child.type === "text" ? inline((child as Tokens.Text).tokens ?? [child]) : <BlockToken token={child} />))}
    </li>
  ));
  return token.ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ token }: { token: Tokens.Table }): JSX.Element {
  const style = (column: number): { textAlign: "left" | "right" | "center" } | undefined => {
    const align = token.align[column];
    return align ? { textAlign: align } : undefined;
  };
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {token.header.map((cell, column) => (
              <th style={style(column)}>{inline(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row) => (
            <tr>
              {row.map((cell, column) => (
                <td style={style(column)}>{inline(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function BlockToken({ token, top = 1 }: { token: Token; top?: number }): JSX.Element | null {
  switch (token.type) {
    case "space":
    case "def":
    case "checkbox":
      return null;
    case "code":
      return <CodeBlock code={token.text} language={(token.lang ?? "").split(/\s/)[0]?.toLowerCase() ?? ""} />;
    case "heading": {
      // The page has its own first and second level: texts start with the third.
      const Level = `h${Math.max(3, Math.min(6, token.depth - top + 3))}` as "h3";
      return <Level class={`level-${token.depth}`}>{inline(token.tokens)}</Level>;
    }
    case "hr":
      return <hr />;
    case "blockquote":
      return <blockquote>{(token.tokens ?? []).map((child) => <BlockToken token={child} />)}</blockquote>;
    case "list":
      return <List token={token as Tokens.List} />;
    case "table":
      return <Table token={token as Tokens.Table} />;
    case "html":
      return <p>{token.raw.trim()}</p>;
    default:
      return <p>{inline(nested(token) ?? [token])}</p>;
  }
}

const Unchanged = memo(BlockToken, (before, after) => before.token.raw === after.token.raw && before.token.type === after.token.type && before.top === after.top);

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const tokens = useMemo(() => parseMarkdown(text), [text]);
  const top = Math.min(6, ...tokens.flatMap((token) => (token.type === "heading" ? [(token as Tokens.Heading).depth] : [])));
  return (
    <div class="prose">
      {tokens.map((token, index) => (
        <Unchanged key={index} token={token} top={top} />
      ))}
    </div>
  );
});
