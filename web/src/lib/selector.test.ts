import { describe, expect, it } from "vitest";

import type { KnownColumn } from "../api/table";
import { asSelector, complete, isPlace, isUnfinished, matchesOf, placesOf, put, tokens } from "./selector";

const known: KnownColumn[] = [
  { name: "status", kind: "text", runs: 9 },
  { name: "created", kind: "time", runs: 9 },
  { name: "archived", kind: "bool", runs: 9 },
  { name: "hparams.lr", kind: "number", runs: 9 },
  { name: "hparams.optimizer", kind: "text", runs: 9 },
  { name: "metrics.val/loss.last", kind: "metric", runs: 9 },
];

/// Suggestions where the bar stands.
function at(text: string): string[] {
  const cursor = text.indexOf("|");
  return complete(text.replace("|", ""), cursor, known).suggestions.map((each) => each.text);
}

describe("completion", () => {
  it("offers fields where a comparison begins", () => {
    expect(at("|")).toContain("hparams.lr");
    expect(at("l|")[0]).toBe("hparams.lr");
    expect(at("status=running and o|")).toContain("hparams.optimizer");
    expect(at("not (op|")).toEqual(["hparams.optimizer"]);
    expect(at("exp:7 where va|")).toEqual(["metrics.val/loss.last"]);
  });

  it("offers operators that fit the field", () => {
    expect(at("status |")).toContain("~");
    expect(at("lr |")).toContain("<=");
    expect(at("lr |")).not.toContain("~");
    expect(at("archived |")).toEqual(["=", "is null"]);
  });

  it("offers values where there are few", () => {
    expect(at("status=|")).toContain("running");
    expect(at("status = fi|")).toEqual(["finished"]);
    expect(at("status in (running, l|")).toEqual(["lost", "failed", "killed"].filter((v) => v.includes("l")));
    expect(at("created > |")).toContain("1d");
    expect(at("lr < |")).toEqual([]);
  });

  it("offers what joins conditions and ends them", () => {
    expect(at("lr<0.1 |")).toEqual(["and", "or", "order by", "limit"]);
    expect(at("lr<0.1 a|")[0]).toBe("and");
    expect(at("lr is null |")).toContain("and");
    expect(at("where lr<0.1 order by |")).toContain("created");
    expect(at("where lr<0.1 order by created |")).toEqual(["desc", "asc", "limit"]);
  });

  it("says nothing of a word that is written out", () => {
    expect(at("status=running|")).toEqual([]);
  });

  it("puts a suggestion in the place of what was begun", () => {
    const text = "status=running and opt";
    const found = complete(text, text.length, known);
    expect(put(text, found, found.suggestions[0]!)).toEqual({
      text: "status=running and hparams.optimizer ",
      cursor: 37,
    });
    const value = complete("status=ru", 9, known);
    expect(put("status=ru", value, value.suggestions[0]!).text).toBe("status=running ");
  });
});

describe("a text that is still being written", () => {
  it("is one whose word could become another, or that must go on", () => {
    for (const text of ["stat", "status = runn", "lr < 0.1 and", "lr < 0.1 and ", "lr <", "status = ", "lr "]) {
      expect(isUnfinished(text, text.length, known), text).toBe(true);
    }
  });

  it("is not one that is whole, or wrong however it goes on", () => {
    for (const text of ["", "lr < 0.1", "lr < 0.1 foo", "status = running", "no-such-run", "lr < 0.1 and status = running "]) {
      expect(isUnfinished(text, text.length, known), text).toBe(false);
    }
  });
});

describe("a suggestion in the middle", () => {
  it("uses the blank that is there", () => {
    const found = complete("stat = running", 4, known);
    const status = found.suggestions.find((each) => each.text === "status")!;
    expect(put("stat = running", found, status)).toEqual({ text: "status = running", cursor: 7 });
  });
});

describe("what is sent", () => {
  it("is a selector, with where before a condition that stands alone", () => {
    expect(asSelector("lr<0.1")).toEqual({ q: "where lr<0.1", shift: 6 });
    expect(asSelector("tag in (a)").q).toBe("where tag in (a)");
    expect(asSelector("exp:7 where lr<0.1").shift).toBe(0);
    expect(asSelector("run1-run5, exp:7").q).toBe("run1-run5, exp:7");
    expect(asSelector("order by created").shift).toBe(0);
    expect(asSelector("  ")).toEqual({ q: "", shift: 0 });
  });

  it("is a path with signs of operators as it is", () => {
    for (const text of ["oss://bucket/lr=0.01", "~/runs", "exp:7, ./lr=0.1"]) expect(asSelector(text)).toEqual({ q: text, shift: 0 });
    for (const text of ["name ~ a/b", "path = /data/lr=1", "path=/data/", "name ~/x"]) expect(asSelector(text).shift, text).toBe(6);
  });
});

describe("paths and URIs", () => {
  it("are told from names and relative paths", () => {
    for (const text of ["oss://bucket/prefix", "s3://b", "/data", '"/my runs"', "'s3://b/a b'"]) {
      expect(isPlace(text), text).toBe(true);
    }
    for (const text of ["run1", "exp:mnist", "ws1/run1", '"my run/"', "a/b/c", "./runs", "~/runs", "runs/"]) expect(isPlace(text), text).toBe(false);
  });

  it("are found among the terms, unless known runs are filtered", () => {
    expect(placesOf('exp:mnist, oss://b/lr=0.01 "/my runs"')).toEqual(["oss://b/lr=0.01", '"/my runs"']);
    for (const text of ["", "exp:mnist", "s3://b where lr < 1", "/data limit 3", "path ~ /data"]) expect(placesOf(text), text).toEqual([]);
  });
});

describe("tokens", () => {
  it("cover everything but blanks, whatever is typed", () => {
    const signs = ['"', "'", "a", " ", "(", ")", "=", "<", "!", "~", ",", "\\", "é"];
    let seed = 7;
    for (let round = 0; round < 2000; round++) {
      let text = "";
      for (let length = 0; length < 12; length++) {
        seed = (seed * 1103515245 + 12345) & 0x7fffffff;
        text += signs[(seed >> 8) % signs.length]!;
      }
      let end = 0;
      for (const token of tokens(text)) {
        expect(text.slice(end, token.from).trim()).toBe("");
        expect(token.to).toBeGreaterThan(token.from);
        end = token.to;
      }
      expect(text.slice(end).trim()).toBe("");
    }
  });
});

it("runs that a name could mean become a filter; other matches do not", () => {
  expect(matchesOf({ matches: [{ id: 23, name: "a" }, { id: 2300 }] })).toEqual({ n: 2, filter: "id in (23, 2300)" });
  expect(matchesOf({ matches: ["ws/job:1", "ws/job:2"] })).toBe(null);
  expect(matchesOf({})).toBe(null);
});
