/// Places something beside what it belongs to, inside the window, above it where there is more room.

import type { Attachment } from "svelte/attachments";

const GAP = 4;
const EDGE = 8;

export function anchored(anchor: Element, align: "start" | "end" | "auto" = "auto"): Attachment<HTMLElement> {
  return (element) => {
    const put = () => {
      const at = anchor.getBoundingClientRect();
      const below = innerHeight - at.bottom - GAP - EDGE;
      const above = at.top - GAP - EDGE;
      const height = element.scrollHeight + 2;
      const isBelow = height <= below || below >= above;
      element.style.maxHeight = `${Math.max(120, isBelow ? below : above)}px`;
      const width = element.offsetWidth;
      const atEnd = align === "end" || (align === "auto" && at.left + width > innerWidth - EDGE);
      const left = atEnd ? at.right - width : at.left;
      element.style.left = `${Math.max(EDGE, Math.min(left, innerWidth - width - EDGE))}px`;
      if (isBelow) {
        element.style.top = `${at.bottom + GAP}px`;
        element.style.bottom = "auto";
      } else {
        element.style.bottom = `${innerHeight - at.top + GAP}px`;
        element.style.top = "auto";
      }
    };
    put();
    const watch = new ResizeObserver(put);
    watch.observe(element);
    addEventListener("resize", put);
    return () => {
      watch.disconnect();
      removeEventListener("resize", put);
    };
  };
}
