/** Images and files of a message. Nothing is fetched from another server: such an address is only a link. */

import type { JSX } from "preact";
import { api } from "../api/client";
import type { PlainBlock } from "../api/types";
import { fileSize } from "../text/format";
import { safeAddress } from "../text/links";
import { Icon } from "./icons";

const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);

export function Media({ content, session }: { content: PlainBlock; session: string }): JSX.Element | null {
  if (content.type === "text") return null;
  const { media_type: type, data = "", url = "" } = content;
  const name = content.type === "file" ? content.name || "file" : "image";
  const blob = url.startsWith("blob:") ? api.blobUrl(session, url.slice("blob:".length)) : "";
  if (content.type === "image" && IMAGE_TYPES.has(type) && (data || blob)) {
    return <img class="picture" src={blob || `data:${type};base64,${data}`} alt="attached image" loading="lazy" />;
  }
  const address = blob || safeAddress(url);
  const label = (
    <>
      <Icon name="file" size={15} /> {name} <small>{data ? fileSize(Math.round(data.length * 0.75)) : type}</small>
    </>
  );
  return address ? (
    <a class="chip" href={address} target="_blank" rel="noopener noreferrer">
      {label}
    </a>
  ) : (
    <span class="chip">{label}</span>
  );
}
