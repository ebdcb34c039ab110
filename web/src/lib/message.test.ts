import { expect, test } from "vitest";

import { brief, parseMessage } from "./message";

test("the hint is apart, and commands are code", () => {
  expect(parseMessage("s3://b cannot be read: no. hint: `tbhub storage test s3://b` tells more")).toEqual({
    what: [{ text: "s3://b cannot be read: no.", isCode: false }],
    hint: [
      { text: "tbhub storage test s3://b", isCode: true },
      { text: " tells more", isCode: false },
    ],
  });
});

test("the hint of a Chinese message is apart", () => {
  expect(parseMessage("无法读取 s3://b：存储出错。提示：`tbhub storage test s3://b` 可查看详情")).toEqual({
    what: [{ text: "无法读取 s3://b：存储出错。", isCode: false }],
    hint: [
      { text: "tbhub storage test s3://b", isCode: true },
      { text: " 可查看详情", isCode: false },
    ],
  });
  expect(parseMessage("没有运行 a提示：b。").hint).toEqual([]);
});

test("a message without a hint is one part", () => {
  expect(parseMessage("Waiting for /a`b.")).toEqual({ what: [{ text: "Waiting for /a`b.", isCode: false }], hint: [] });
  expect(parseMessage("").what).toEqual([]);
});

test("a name that ends with hint: is no hint", () => {
  expect(parseMessage("no run myhint: x").hint).toEqual([]);
});

test("a brief message has no hint, and of paths only the ends", () => {
  expect(brief("s3://bucket/a/b/c cannot be read: no. hint: help")).toBe("…/c cannot be read: no.");
  expect(brief("Waiting for /data/team/run1, which does not exist.")).toBe("Waiting for …/run1, which does not exist.");
  expect(brief("无法读取 s3://bucket/a：凭据未被接受。")).toBe("无法读取 …/a：凭据未被接受。");
  expect(brief("It was killed by ada/bob.")).toBe("It was killed by ada/bob.");
});

test("a brief message in Chinese has no hint", () => {
  const text = "无法读取 s3://bucket/a/b：存储出错。提示：`tbhub storage test s3://bucket/a/b` 可查看详情";
  expect(brief(text)).toBe("无法读取 …/b：存储出错。");
});

test("a command in a brief message is whole", () => {
  expect(brief("s3://bucket/a/b cannot be read: see `tbhub storage test s3://bucket/a/b`.")).toBe(
    "…/b cannot be read: see tbhub storage test s3://bucket/a/b.",
  );
});
