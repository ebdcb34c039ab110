import { expect, it } from "vitest";

import { readingsOf } from "./address";

it.each([
  ["303", [{ run: 303 }]],
  ["303/log", [{ run: 303, tab: "log" }]],
  ["303/train", [{ run: "303/train" }, { run: 303, tab: "train" }]],
  ["303/x/log", [{ run: "303/x/log" }, { run: "303/x", tab: "log" }]],
  ["run82", [{ run: "run82" }]],
  ["run82/files", [{ run: "run82/files" }, { run: "run82", tab: "files" }]],
  ["exp8/run82", [{ run: "exp8/run82" }]],
  ["exp8/run82/log", [{ run: "exp8/run82/log" }, { run: "exp8/run82", tab: "log" }]],
  ["log", [{ run: "log" }]],
  ["0", [{ run: "0" }]],
  ["1234567890123456", [{ run: "1234567890123456" }]],
])("%s is read as %j", (address, readings) => {
  expect(readingsOf(address)).toEqual(readings);
});
