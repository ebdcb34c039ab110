/// The points of runs: packed series as typed arrays over the hub's answer, tags, images, news.

import { address, send, type Schemas } from "./client";

export interface Series {
  run: number;
  tag: string;
  /// How many points there are in all, of which these are some.
  total: number;
  /// The steps the run went back to.
  restarts: number[];
  steps: Float64Array;
  walls: Float64Array;
  values: Float32Array;
  /// The mean of all values since the point before: what is smoothed. The values themselves where
  /// it was not asked for.
  means: Float32Array;
  /// What another tag was at each point, where that was asked for.
  xs: Float64Array | null;
}

export interface Packed {
  series: Series[];
  /// Runs that are still being read: the news tell when they have been.
  loading: number[];
  /// Why runs cannot be read, by their numbers.
  problems: Record<string, string>;
}

export interface Asked {
  runs: number[];
  tags: string[];
  points: number;
  x?: "step" | "wall" | "relative";
  min?: number;
  max?: number;
  x_tag?: string;
  means?: boolean;
}

interface Header {
  series: { run: number; tag: string; points: number; total: number; restarts: number[] }[];
  x_tag: string | null;
  means: boolean;
  loading: number[];
  problems: Record<string, string>;
}

/// An answer of `POST /api/v1/series`; see `packed_series` of the hub for its layout.
export function unpack(buffer: ArrayBuffer): Packed {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size))) as Header;
  let offset = 4 + size;
  const doubles = (count: number) => {
    const array = new Float64Array(buffer, offset, count);
    offset += array.byteLength;
    return array;
  };
  const series = header.series.map(({ run, tag, points, total, restarts }) => {
    const steps = doubles(points);
    const walls = doubles(points);
    const xs = header.x_tag === null ? null : doubles(points);
    const values = new Float32Array(buffer, offset, points);
    offset += values.byteLength;
    const means = header.means ? new Float32Array(buffer, offset, points) : values;
    if (header.means) offset += means.byteLength;
    offset = Math.ceil(offset / 8) * 8;
    return { run, tag, total, restarts, steps, walls, values, means, xs };
  });
  return { series, loading: header.loading, problems: header.problems };
}

export async function points(asked: Asked, signal?: AbortSignal): Promise<Packed> {
  const response = await send("POST", address("/api/v1/series"), { body: asked, signal });
  return unpack(await response.arrayBuffer());
}

export async function tags(runs: number[], signal?: AbortSignal): Promise<Schemas["SeriesTags"]> {
  const response = await send("POST", address("/api/v1/series/tags"), { body: { runs }, signal });
  return (await response.json()) as Schemas["SeriesTags"];
}

export async function images(runs: number[], signal?: AbortSignal): Promise<Schemas["Images"]> {
  const response = await send("POST", address("/api/v1/series/images"), { body: { runs }, signal });
  return (await response.json()) as Schemas["Images"];
}

export function imageAddress(run: number, tag: string, step: number, wall: number, sample = 0): string {
  return address("/api/v1/series/image", {}, { run, tag, step, wall_time: wall, sample });
}

const PAUSE = 1000; // before the stream is opened again

/// Calls back with the runs that have news, and with null when some may have been missed. Returns
/// what ends it. Rests while nobody looks at the page.
export function listen(runs: number[], told: (runs: number[] | null) => void): () => void {
  let controller: AbortController | null = null;
  let isOver = false;
  let isFirst = true;

  async function stream(): Promise<void> {
    while (!isOver && !document.hidden) {
      const mine = (controller = new AbortController());
      try {
        const where = address("/api/v1/series/news");
        const response = await send("POST", where, { body: { runs }, signal: mine.signal });
        await read(response.body!, (line) => {
          const ids = (JSON.parse(line) as { runs: number[] }).runs;
          if (ids.length > 0) told(ids);
          else if (!isFirst) told(null);
          isFirst = false;
        });
      } catch {
        if (isOver || mine.signal.aborted) break;
      }
      await new Promise((done) => setTimeout(done, PAUSE));
    }
    controller = null;
  }

  const seen = () => {
    if (document.hidden) controller?.abort();
    else if (controller === null) void stream();
  };
  document.addEventListener("visibilitychange", seen);
  void stream();
  return () => {
    isOver = true;
    controller?.abort();
    document.removeEventListener("visibilitychange", seen);
  };
}

async function read(body: ReadableStream<Uint8Array>, take: (line: string) => void): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as never).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + (value as unknown as string)).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim()) take(line);
  }
}
