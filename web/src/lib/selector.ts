/// Selectors as people type them on the runs page: the hub's language, in which a condition may stand
/// alone, and what could come next where the cursor is. Pure.

import type { KnownColumn, Kind } from "../api/table";

const WORD = /[^\s"'(),=<>!~]/;
const OPERATOR = /==|!=|<>|<=|>=|!~|[=<>~]/y;
// What can only be a path or a URI, as `looks_like_path` of the hub has it.
const PATH_START = /^(?:\.{1,2}(?:\/|$)|\/|~|[a-z][a-z0-9+.-]*:\/\/)/i;
// What a board can be over without known runs: the hub takes whole paths only.
const PLACE = /^["']?(?:\/|[a-z][a-z0-9+.-]*:\/\/)/i;
const TERM = /(?:"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|[^\s,"'])+/g;

export interface Token {
  kind: "word" | "operator" | "(" | ")" | ",";
  text: string;
  from: number;
  to: number;
}

/// The pieces of a text; an open quote runs to its end.
export function tokens(text: string): Token[] {
  const found: Token[] = [];
  let at = 0;
  while (at < text.length) {
    const sign = text[at]!;
    const from = at;
    OPERATOR.lastIndex = at;
    const operator = OPERATOR.exec(text);
    if (/\s/.test(sign)) {
      at++;
      continue;
    }
    if (sign === "(" || sign === ")" || sign === ",") {
      at++;
      found.push({ kind: sign, text: sign, from, to: at });
    } else if (operator) {
      at += operator[0].length;
      found.push({ kind: "operator", text: operator[0], from, to: at });
    } else {
      while (at < text.length) {
        const next = text[at]!;
        if (next === '"' || next === "'") {
          at++;
          while (at < text.length && text[at] !== next) at += text[at] === "\\" ? 2 : 1;
          at = Math.min(at + 1, text.length);
        } else if (WORD.test(next)) at++;
        else break;
      }
      if (at === from) at++;
      found.push({ kind: "word", text: text.slice(from, at), from, to: at });
    }
  }
  return found;
}

/// What is sent for a text, and how much longer it became in front: positions that the hub tells are
/// of the sent text.
export function asSelector(text: string): { q: string; shift: number } {
  const trimmed = text.trim();
  if (!trimmed) return { q: "", shift: 0 };
  // Signs of operators may stand in a path: s3://bucket/lr=0.01.
  if (PATH_START.test(trimmed)) return { q: text, shift: 0 };
  const pieces = tokens(text);
  const isWord = (token: Token, ...words: string[]) =>
    token.kind === "word" && words.includes(token.text.toLowerCase());
  const first = pieces[0]!;
  const paths = [...text.matchAll(TERM)].filter(([term]) => PATH_START.test(term) && !term.startsWith("~"));
  const isInPath = (token: Token) => paths.some((path) => path.index <= token.from && token.to <= path.index + path[0].length);
  const hasClause = pieces.some((token) => isWord(token, "where")) || isWord(first, "order", "limit");
  const isCondition = pieces.some(
    (token, at) =>
      (token.kind === "operator" && !isInPath(token)) ||
      (isWord(token, "in", "is") && at > 0) ||
      (isWord(token, "not") && at === 0),
  );
  if (hasClause || !isCondition) return { q: text, shift: 0 };
  return { q: `where ${text}`, shift: 6 };
}

/// Whether a word of a selector is a whole path or a URI.
export function isPlace(term: string): boolean {
  return PLACE.test(term);
}

/// The whole paths and URIs that a text names. None if it has a condition, an order or a limit: then a
/// board shows runs that are known, and nothing else below a path.
export function placesOf(text: string): string[] {
  if (asSelector(text).shift > 0) return [];
  const terms = text.match(TERM) ?? [];
  if (terms.some((each) => /^(?:where|order|limit)$/i.test(each))) return [];
  return terms.filter(isPlace);
}

export interface Suggestion {
  text: string;
  kind: "column" | "operator" | "value" | "word";
  detail?: string;
}

export interface Completion {
  /// What is replaced.
  from: number;
  to: number;
  suggestions: Suggestion[];
}

type Expecting = "field" | "operator" | "value" | "after" | "order" | "direction" | "number" | "term";

const STATUSES = ["running", "finished", "failed", "killed", "lost", "unknown"];
const MOST = 40;

/// What could stand where the cursor is.
export function complete(text: string, cursor: number, known: KnownColumn[]): Completion {
  const pieces = tokens(text.slice(0, cursor));
  const last = pieces.at(-1);
  const isInside = last !== undefined && last.to === cursor && last.kind === "word";
  const before = isInside ? pieces.slice(0, -1) : pieces;
  const typed = isInside ? last.text : "";
  const from = isInside ? last.from : cursor;
  const to = isInside ? cursor + (/^[^\s"'(),=<>!~]*/.exec(text.slice(cursor))?.[0].length ?? 0) : cursor;
  const { expecting, field } = stateAfter(before);
  const column = field === undefined ? undefined : known.find((each) => bare(each.name) === bare(field) || each.name === field);
  const all = possible(expecting, column, known, field);
  const wanted = typed.toLowerCase().replace(/^["']|["']$/g, "");
  const scored = all
    .map((each, at) => ({ each, at, score: rank(each.text.toLowerCase(), wanted) }))
    .filter(({ score }) => score >= 0)
    .sort((a, b) => b.score - a.score || a.at - b.at)
    .slice(0, MOST)
    .map(({ each }) => each);
  const isDone = scored.length === 1 && scored[0]!.text.toLowerCase() === wanted;
  return { from, to, suggestions: isDone ? [] : scored };
}

/// Whether a text is still being written where the cursor is: its word could become another one, or
/// something must follow. What is wrong with it so far is no mistake yet.
export function isUnfinished(text: string, cursor: number, known: KnownColumn[]): boolean {
  const found = complete(text, cursor, known);
  if (found.from < cursor && found.suggestions.length > 0) return true;
  const { expecting, field } = stateAfter(tokens(text));
  const { q, shift } = asSelector(text);
  const isCondition = shift > 0 || /\bwhere\b/i.test(q);
  // Names of runs stand for themselves; that of a column is the beginning of a condition.
  if (!isCondition) return field !== undefined && known.some((each) => bare(each.name) === bare(field));
  return ["field", "operator", "value", "order"].includes(expecting);
}

function rank(text: string, wanted: string): number {
  if (!wanted) return 0;
  const at = text.indexOf(wanted);
  if (at < 0) return -1;
  if (at === 0) return 3;
  return /[./ "_-]/.test(text[at - 1]!) ? 2 : 1;
}

function bare(name: string): string {
  return name.replace(/^hparams\./, "");
}

/// What a condition expects behind its pieces, and the field that is being compared.
function stateAfter(pieces: Token[]): { expecting: Expecting; field?: string } {
  const words = pieces.map((each) => each.text.toLowerCase());
  const hasWhere = words.includes("where");
  let expecting: Expecting = hasWhere ? "term" : "field";
  let field: string | undefined;
  let isList = false;
  for (const [at, piece] of pieces.entries()) {
    const word = piece.kind === "word" ? words[at]! : "";
    if (word === "where") expecting = "field";
    else if (expecting === "term") continue;
    else if (word === "order") expecting = "after";
    else if (word === "by") expecting = "order";
    else if (word === "limit") expecting = "number";
    else if (expecting === "order") expecting = "direction";
    else if (expecting === "direction") expecting = piece.kind === "," ? "order" : "direction";
    else if (expecting === "number") expecting = "number";
    else if (word === "and" || word === "or") [expecting, isList] = ["field", false];
    else if (expecting === "field") {
      if (piece.kind === "word" && word !== "not") [expecting, field] = ["operator", piece.text];
    } else if (expecting === "operator") {
      if (piece.kind === "operator") expecting = "value";
      else if (word === "in") isList = true;
      else if (piece.kind === "(" && isList) expecting = "value";
      else if (word === "null") expecting = "after";
    } else if (expecting === "value") {
      if (piece.kind === ")") [expecting, isList] = ["after", false];
      else if (!isList) expecting = "after";
    }
  }
  return { expecting, field };
}

function possible(
  expecting: Expecting,
  column: KnownColumn | undefined,
  known: KnownColumn[],
  field: string | undefined,
): Suggestion[] {
  const words = (...list: string[]): Suggestion[] => list.map((text) => ({ text, kind: "word" }));
  const fields = known.map((each): Suggestion => ({ text: each.name, kind: "column", detail: each.kind }));
  switch (expecting) {
    case "term":
      return words("where");
    case "field":
      return [...fields.filter((each) => each.detail !== "tags"), { text: "tag", kind: "column", detail: "tags" }, ...words("not")];
    case "order":
      return fields;
    case "direction":
      return words("desc", "asc", "limit");
    case "operator":
      return operators(column?.kind);
    case "value":
      return values(column, field);
    case "after":
      return words("and", "or", "order by", "limit");
    case "number":
      return [];
  }
}

function operators(kind: Kind | undefined): Suggestion[] {
  const isText = kind === undefined || kind === "text" || kind === "tags";
  const signs = isText ? ["=", "!=", "~", "!~", "in (", "not in (", "is null", "is not null"] : ["<", "<=", ">", ">=", "=", "!=", "in (", "is null", "is not null"];
  return (kind === "bool" ? ["=", "is null"] : signs).map((text) => ({ text, kind: "operator" }));
}

function values(column: KnownColumn | undefined, field: string | undefined): Suggestion[] {
  const list = (...texts: string[]): Suggestion[] => texts.map((text) => ({ text, kind: "value" }));
  if (field === "status") return list(...STATUSES);
  if (column?.kind === "bool") return list("true", "false");
  if (column?.kind === "time") return list("1h", "1d", "7d", "4w");
  return [];
}

/// A text with a suggestion put in, and where the cursor is then: behind a blank.
export function put(text: string, completion: Completion, suggestion: Suggestion): { text: string; cursor: number } {
  const before = text.slice(0, completion.from);
  const after = text.slice(completion.to);
  const needsBlank = before !== "" && !/[\s(]$/.test(before) && suggestion.kind !== "value";
  const middle = (needsBlank ? " " : "") + suggestion.text;
  const ending = /[(]$/.test(suggestion.text) ? "" : " ";
  const rest = ending && after.startsWith(" ") ? after.slice(1) : after;
  return { text: before + middle + ending + rest, cursor: (before + middle + ending).length };
}

/// A text in quotes.
export function quoted(text: string): string {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}

/// How a name stands in a selector: quoted where it has signs of the language in it.
export function columnName(kind: "hparams" | "metrics", name: string, aggregate = ""): string {
  const isPlain = /^[^\s"'(),=<>!~]+$/.test(name);
  const written = isPlain ? name : quoted(name);
  return `${kind}.${written}${aggregate ? `.${aggregate}` : ""}`;
}

/// The runs among the matches that the hub lists for a name of several: how many, and their filter.
export function matchesOf(details: Record<string, unknown>): { n: number; filter: string } | null {
  const found = Array.isArray(details.matches) ? (details.matches as { id?: unknown }[]) : [];
  return filterOf(found.map((each) => each?.id).filter((id) => typeof id === "number"));
}

/// How many runs these numbers are, and the filter that shows just them.
export function filterOf(ids: number[]): { n: number; filter: string } | null {
  return ids.length ? { n: ids.length, filter: `id in (${ids.join(", ")})` } : null;
}
