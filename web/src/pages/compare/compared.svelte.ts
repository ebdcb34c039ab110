/// The runs that are compared: who they are, what they have logged, and the points of what is in
/// sight. News make only those runs be asked for again that have some.

import { asProblem } from "../../api/resource.svelte";
import type { Problem, Schemas } from "../../api/client";
import * as api from "../../api/series";
import type { Series } from "../../api/series";
import * as table from "../../api/table";
import type { Value } from "../../lib/colours";
import { sharedLength, type XAxis } from "../../lib/layout";

export const MOST = 1000; // runs
const AT_ONCE = 500; // runs named in an address
const AGAIN = 250; // milliseconds between two requests for one chart
const TAGS_AGAIN = 3000;
const NUMBERS = 60; // columns of metrics that are offered as axes

/// How many points of a line are worth asking for: a chart is some 450 pixels wide.
export function worth(runs: number): number {
  return runs <= 10 ? 2000 : runs <= 40 ? 1200 : runs <= 120 ? 900 : 600;
}

export interface Range {
  min: number;
  max: number;
}

/// One chart's series.
export class TagSeries {
  series = $state.raw<Series[]>([]);
  isThere = $state(false);
  problem = $state.raw<Problem | undefined>(undefined);
  readonly tag: string;
  readonly #of: Compared;
  #pending: Set<number> | null = null;
  #isAsking = false;
  #asked = "";
  #controller: AbortController | null = null;

  constructor(of: Compared, tag: string) {
    this.#of = of;
    this.tag = tag;
  }

  /// Asks for all runs over an axis, within a range, unless that is what is there.
  show(x: XAxis, zoom: Range | null): void {
    const what = JSON.stringify([x, zoom, this.#of.ids.length]);
    if (what === this.#asked) {
      if (this.#pending) void this.#ask(x, zoom);
      return;
    }
    this.#asked = what;
    this.#controller?.abort();
    this.#isAsking = false;
    this.#pending = new Set(this.#of.ids);
    void this.#ask(x, zoom);
  }

  /// These have news, or any may have. They are asked for when the chart is next shown.
  stale(runs: number[] | null): void {
    if (!this.#asked) return;
    this.#pending ??= new Set();
    for (const run of runs ?? this.#of.ids) this.#pending.add(run);
  }

  async #ask(x: XAxis, zoom: Range | null): Promise<void> {
    if (this.#isAsking || this.#pending === null || this.#pending.size === 0) return;
    this.#isAsking = true;
    const runs = [...this.#pending];
    this.#pending = null;
    const mine = (this.#controller = new AbortController());
    const kind = x === "wall" || x === "relative" ? x : "step";
    const isOver = x.startsWith("tag:");
    try {
      const found = await api.points(
        {
          runs,
          tags: [this.tag],
          points: worth(this.#of.ids.length),
          x: kind,
          means: true,
          ...(zoom && !isOver ? zoom : {}),
          ...(isOver ? { x_tag: x.slice(4) } : {}),
        },
        mine.signal,
      );
      if (mine.signal.aborted) return;
      this.#take(runs, found.series);
      this.#of.note(found);
      this.problem = undefined;
      this.isThere = true;
    } catch (error) {
      if (mine.signal.aborted) return;
      this.problem = asProblem(error);
    }
    setTimeout(() => {
      if (mine !== this.#controller) return;
      this.#isAsking = false;
      if (this.#pending && this.#of.isSeen(this)) void this.#ask(x, zoom);
    }, AGAIN);
  }

  #take(asked: number[], found: Series[]): void {
    if (asked.length === this.#of.ids.length) {
      this.series = found;
      return;
    }
    const byRun = new Map(this.series.map((each) => [each.run, each]));
    for (const run of asked) byRun.delete(run);
    for (const each of found) byRun.set(each.run, each);
    this.series = this.#of.ids.flatMap((run) => byRun.get(run) ?? []);
  }
}

export class Compared {
  ids = $state.raw<number[]>([]);
  total = $state(0);
  isKnown = $state(false); // which runs there are
  names = $state.raw(new Map<number, string>());
  scalars = $state.raw<Schemas["TagCount"][] | null>(null);
  imageTags = $state.raw<Schemas["TagCount"][]>([]);
  hasOther = $state(false); // something was logged that only a board shows
  /// Runs that were asked for and are not there, or not for who asks.
  gone = $state.raw<number[]>([]);
  problem = $state.raw<Problem | undefined>(undefined);
  problems = $state.raw<Record<string, string>>({});
  loading = $state(0);
  hparams = $state.raw<string[]>([]);
  metrics = $state.raw<string[]>([]);
  values = $state.raw(new Map<string, Map<number, Value>>());
  #shared = $derived(sharedLength([...this.names.values()]));
  #charts = new Map<string, TagSeries>();
  #seen = new Map<TagSeries, () => void>();
  #end: (() => void) | null = null;
  #tagsAt = 0;
  #tagsTimer: ReturnType<typeof setTimeout> | undefined;
  #asked = 0;

  /// Compares these runs, or those of a selector.
  async open(runs: number[], q: string): Promise<void> {
    this.close();
    const mine = ++this.#asked;
    this.problem = undefined;
    this.isKnown = false;
    this.scalars = null;
    this.gone = [];
    this.#charts.clear();
    try {
      if (runs.length > 0) {
        this.#know(runs.slice(0, MOST), runs.length);
        this.names = new Map();
        // Points are asked for by number, and one that is not there would leave all without theirs.
        await this.#loadColumns(mine, []);
        if (mine !== this.#asked) return;
        this.gone = this.ids.filter((id) => !this.names.has(id));
        this.#know(this.ids.filter((id) => this.names.has(id)), this.total - this.gone.length);
      } else {
        const found = await table.rows({ q, search: "", sort: "", archived: false }, ["name"], 0, MOST);
        if (mine !== this.#asked) return;
        this.#know(found.columns.id, found.total);
        this.names = new Map(found.columns.id.map((id, at) => [id, found.columns.name[at]!]));
      }
      this.isKnown = true;
      if (this.ids.length === 0) return;
      this.#end = api.listen(this.ids, (news) => this.#told(news));
      await Promise.all([this.#loadTags(), this.#loadRows(mine)]);
    } catch (error) {
      if (mine === this.#asked) this.problem = asProblem(error);
    }
  }

  /// The points of these runs and nothing else: whoever asks knows them by name.
  follow(names: ReadonlyMap<number, string>): void {
    this.close();
    this.#know([...names.keys()], names.size);
    this.names = new Map(names);
    this.isKnown = true;
    this.#end = api.listen(this.ids, (news) => this.#told(news));
  }

  #know(ids: number[], total: number): void {
    this.ids = ids;
    this.total = total;
  }

  close(): void {
    this.#asked++;
    this.#end?.();
    this.#end = null;
    clearTimeout(this.#tagsTimer);
  }

  /// The points of a tag; kept while the page is open.
  chart(tag: string): TagSeries {
    let found = this.#charts.get(tag);
    if (!found) this.#charts.set(tag, (found = new TagSeries(this, tag)));
    return found;
  }

  /// A chart is in sight: it is asked to show itself again when there is news. Returns what ends it.
  see(chart: TagSeries, again: () => void): () => void {
    this.#seen.set(chart, again);
    return () => this.#seen.delete(chart);
  }

  isSeen(chart: TagSeries): boolean {
    return this.#seen.has(chart);
  }

  note(found: api.Packed): void {
    this.loading = found.loading.length;
    if (Object.keys(found.problems).length > 0) this.problems = { ...this.problems, ...found.problems };
  }

  /// What a run is called here: without the directories that all of them share.
  name(run: number): string {
    return this.names.get(run)?.slice(this.#shared) ?? `${run}`;
  }

  value(run: number, column: string): Value {
    return this.values.get(column)?.get(run);
  }

  #told(runs: number[] | null): void {
    for (const chart of this.#charts.values()) chart.stale(runs);
    for (const again of this.#seen.values()) again();
    if (this.scalars === null) return;
    // There may be new tags, too.
    const wait = this.#tagsAt + TAGS_AGAIN - Date.now();
    clearTimeout(this.#tagsTimer);
    this.#tagsTimer = setTimeout(() => void this.#loadTags().catch(() => {}), Math.max(0, wait));
  }

  async #loadTags(): Promise<void> {
    this.#tagsAt = Date.now();
    const mine = this.#asked;
    const found = await api.tags(this.ids);
    if (mine !== this.#asked) return;
    const scalars = found.tags.scalars ?? [];
    if (JSON.stringify(scalars) !== JSON.stringify(this.scalars)) this.scalars = scalars;
    this.imageTags = found.tags.images ?? [];
    this.hasOther = Object.keys(found.tags).some((kind) => kind !== "scalars" && kind !== "images");
    this.problems = found.problems;
    this.loading = found.loading.length;
  }

  /// What they were started with and have come to.
  async #loadRows(mine: number): Promise<void> {
    const known = await table.columns(selectorOf(this.ids.slice(0, AT_ONCE)), true);
    if (mine !== this.#asked) return;
    const hparams = known.filter((each) => each.name.startsWith("hparams.")).map((each) => each.name);
    const metrics = known
      .filter((each) => each.name.startsWith("metrics."))
      .slice(0, NUMBERS)
      .map((each) => each.name);
    await this.#loadColumns(mine, [...hparams.slice(0, 200), ...metrics]);
    this.hparams = hparams;
    this.metrics = metrics;
  }

  async #loadColumns(mine: number, columns: string[]): Promise<void> {
    const names = new Map(this.names);
    const values = new Map(columns.map((name) => [name, new Map<number, Value>()]));
    for (let from = 0; from < this.ids.length; from += AT_ONCE) {
      const asked = { q: selectorOf(this.ids.slice(from, from + AT_ONCE)), search: "", sort: "", archived: true };
      const found = await table.rows(asked, ["name", ...columns], 0, AT_ONCE);
      if (mine !== this.#asked) return;
      found.columns.id.forEach((id, at) => {
        names.set(id, found.columns.name[at]!);
        for (const name of columns) values.get(name)!.set(id, scalarOf(found.columns[name]?.[at]));
      });
    }
    this.names = names;
    if (columns.length > 0) this.values = values;
  }
}

/// A condition, which those that are not there do not fulfil: naming them would be a mistake.
function selectorOf(ids: number[]): string {
  return `where id in (${ids.join(", ")})`;
}

/// A metric is its last value.
function scalarOf(found: unknown): Value {
  if (found !== null && typeof found === "object") return (found as { last?: number }).last ?? null;
  return found as Value;
}
