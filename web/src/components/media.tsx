/** Images and files of a message. Nothing is fetched from another server: such an address is only a link. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { PlainBlock } from "../api/types";
import { objectUrl, show } from "../state/downloads";
import { fileSize } from "../text/format";
import { safeAddress } from "../text/links";
import { Icon } from "./icons";

const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);

/** A picture in a blob of the session, while it is in the document. */
function BlobImage({ session, blob }: { session: string; blob: string }): JSX.Element {
  const [address, setAddress] = useState("");
  useEffect(() => {
    let isGone = false;
    let made = "";
    const load = async (): Promise<void> => {
      made = await objectUrl(await api.blob(session, blob));
      if (isGone) URL.revokeObjectURL(made);
      else setAddress(made);
    };
    load().catch(() => {}); // it is shown as missing
    return () => {
      isGone = true;
      URL.revokeObjectURL(made);
    };
  }, [session, blob]);
  return address ? <img class="picture" src={address} alt="attached image" /> : <span class="chip">image</span>;
}

export function Media({ content, session }: { content: PlainBlock; session: string }): JSX.Element | null {
  if (content.type === "text") return null;
  const { media_type: type, data = "", url = "" } = content;
  const name = content.type === "file" ? content.name || "file" : "image";
  const blob = url.startsWith("blob:") ? url.slice("blob:".length) : "";
  if (content.type === "image" && IMAGE_TYPES.has(type) && (data || blob)) {
    if (blob) return <BlobImage session={session} blob={blob} />;
    return <img class="picture" src={`data:${type};base64,${data}`} alt="attached image" loading="lazy" />;
  }
  const address = safeAddress(url);
  const label = (
    <>
      <Icon name="file" size={15} /> {name} <small>{data ? fileSize(Math.round(data.length * 0.75)) : type}</small>
    </>
  );
  if (blob) {
    return (
      <button type="button" class="chip" onClick={() => show(() => api.blob(session, blob))}>
        {label}
      </button>
    );
  }
  return address ? (
    <a class="chip" href={address} target="_blank" rel="noopener noreferrer">
      {label}
    </a>
  ) : (
    <span class="chip">{label}</span>
  );
}
