/// Lines as strokes: on a canvas, or as the path of an SVG. A column of pixels gets at most four
/// points of a line (first, lowest, highest, last), which look as all of them do.

import { MANY, type Line } from "./lines";

export interface Pen {
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
}

export type Scale = (value: number) => number;

/// The stroke of a line, with gaps where it is not finite; so many columns are a pixel.
export function trace(pen: Pen, x: Float64Array, y: Float32Array, toX: Scale, toY: Scale, columns = 2): void {
  let isDown = false;
  let column = NaN;
  let low = 0;
  let high = 0;
  let last = 0;
  const finish = () => {
    if (!isDown) return;
    if (low !== last) pen.lineTo(column, low);
    if (high !== low) pen.lineTo(column, high);
    if (last !== high) pen.lineTo(column, last);
  };
  for (let at = 0; at < y.length; at++) {
    const down = toY(y[at]!);
    const across = toX(x[at]!);
    if (!Number.isFinite(down) || !Number.isFinite(across)) {
      finish();
      isDown = false;
      continue;
    }
    const place = Math.round(columns * across) / columns;
    if (isDown && place === column) {
      if (down < high) high = down;
      if (down > low) low = down;
      last = down;
      continue;
    }
    finish();
    if (isDown) pen.lineTo(place, down);
    else pen.moveTo(place, down);
    isDown = true;
    column = place;
    low = high = last = down;
  }
  finish();
}

/// The outline of a band: along its upper edge and back along the lower one.
export function outline(pen: Pen, line: Line, toX: Scale, toY: Scale): void {
  const { x, low, high } = line;
  if (low === null || high === null) return;
  let isDown = false;
  const point = (across: number, down: number) => {
    if (!Number.isFinite(across) || !Number.isFinite(down)) return;
    if (isDown) pen.lineTo(across, down);
    else pen.moveTo(across, down);
    isDown = true;
  };
  for (let at = 0; at < x.length; at++) point(toX(x[at]!), toY(high[at]!));
  for (let at = x.length - 1; at >= 0; at--) point(toX(x[at]!), toY(low[at]!));
}

const APART = 9; // pixels of the page between two marks of a line: nearer ones would be a blot
const CROWD = 40; // lines, from which on they are thin: anything wider takes ten times as long

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/// All lines, in a box of a canvas; `ratio` is how many of its pixels are one of the page.
export function paint(
  context: CanvasRenderingContext2D,
  box: Box,
  lines: readonly Line[],
  toX: Scale,
  toY: Scale,
  ratio: number,
  lit: ReadonlySet<string> | null = null,
): void {
  const isFaint = (line: Line) => lit !== null && !lit.has(line.key);
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  context.lineJoin = "bevel";
  for (const line of lines) {
    if (line.low === null) continue;
    context.beginPath();
    outline(context, line, toX, toY);
    context.globalAlpha = isFaint(line) ? 0.03 : 0.16;
    context.fillStyle = line.colour;
    context.fill();
  }
  if (lines.length <= MANY) {
    context.globalAlpha = 0.28;
    context.lineWidth = ratio;
    for (const line of lines) {
      if (line.raw === null || isFaint(line)) continue;
      context.beginPath();
      trace(context, line.x, line.raw, toX, toY);
      context.strokeStyle = line.colour;
      context.stroke();
    }
  }
  const isCrowd = lines.length > CROWD;
  // What is pointed at lies above all others.
  const order = lit === null ? lines : [...lines.filter(isFaint), ...lines.filter((line) => !isFaint(line))];
  for (const line of order) {
    context.globalAlpha = isFaint(line) ? 0.15 : 1;
    context.lineWidth = lit?.has(line.key) ? 2.5 * ratio : isCrowd ? 1 : 1.5 * ratio;
    context.beginPath();
    trace(context, line.x, line.y, toX, toY, isCrowd ? 1 : 2);
    context.strokeStyle = line.colour;
    context.stroke();
  }
  for (const line of order) {
    context.globalAlpha = isFaint(line) ? 0.15 : 1;
    marks(context, box, line, toX, toY, ratio);
  }
  context.restore();
}

export interface Mark {
  x: number;
  y: number;
}

/// Where a line has values that are not finite: marks at the height of the value before, or near the
/// floor of the box where there is none. However many there are they reach to the last, not nearer
/// to each other than `apart`.
export function gaps(line: Line, box: Box, toX: Scale, toY: Scale, apart: number): Mark[] {
  if (!line.hasGaps) return [];
  const found: Mark[] = [];
  const floor = box.top + box.height - apart / 1.5;
  let before = NaN;
  for (let at = 0; at < line.y.length; at++) {
    if (Number.isFinite(line.y[at]!)) {
      before = line.y[at]!;
      continue;
    }
    const x = toX(line.x[at]!);
    const last = found.at(-1);
    if (!Number.isFinite(x) || (last && Math.abs(x - last.x) < apart)) continue;
    const y = toY(before);
    found.push({ x, y: Number.isFinite(y) ? y : floor });
  }
  return found;
}

/// Places on the axis, without those too near to the one before.
export function thinned(places: readonly number[], apart: number): number[] {
  const found: number[] = [];
  for (const place of places) {
    const last = found.at(-1);
    if (Number.isFinite(place) && (last === undefined || Math.abs(place - last) >= apart)) found.push(place);
  }
  return found;
}

function triangle(pen: Pen, { x, y }: Mark, size: number): void {
  pen.moveTo(x, y - size);
  pen.lineTo(x + size, y + size * 0.8);
  pen.lineTo(x - size, y + size * 0.8);
}

/// A triangle is a value that is not finite; where the run went back a small bar stands on the axis.
/// A line of one point is a dot.
function marks(context: CanvasRenderingContext2D, box: Box, line: Line, toX: Scale, toY: Scale, ratio: number): void {
  context.fillStyle = context.strokeStyle = line.colour;
  if (line.x.length === 1) {
    context.beginPath();
    context.arc(toX(line.x[0]!), toY(line.y[0]!), 2.5 * ratio, 0, 7);
    context.fill();
  }
  for (const across of thinned(line.restarts.map(toX), 3 * ratio)) {
    context.fillRect(across - ratio, box.top + box.height - 9 * ratio, 2 * ratio, 9 * ratio);
  }
  context.beginPath();
  for (const mark of gaps(line, box, toX, toY, APART * ratio)) triangle(context, mark, 5 * ratio);
  context.fill();
}

// --- SVG

class Path implements Pen {
  text = "";
  moveTo(x: number, y: number): void {
    this.text += `M${x.toFixed(1)} ${y.toFixed(1)}`;
  }
  lineTo(x: number, y: number): void {
    this.text += `L${x.toFixed(1)} ${y.toFixed(1)}`;
  }
}

export interface Ticks {
  x: { at: number; text: string }[];
  y: { at: number; text: string }[];
}

const WIDTH = 800;
const HEIGHT = 450;
const LEGEND = 24; // names at most

/// A chart as a drawing that needs nothing else. Scales are those of a field of 1 × 1.
export function svg(title: string, lines: readonly Line[], toX: Scale, toY: Scale, ticks: Ticks): string {
  const box = { left: 64, top: 40, width: WIDTH - 84, height: HEIGHT - 80 };
  const x: Scale = (value) => box.left + toX(value) * box.width;
  const y: Scale = (value) => box.top + toY(value) * box.height;
  const named = lines.slice(0, LEGEND);
  const rows = Math.ceil(named.length / 3);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT + rows * 18}" font-family="system-ui, sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="#ffffff"/>`,
    `<text x="${box.left}" y="24" font-size="15" font-weight="600" fill="#1b1e28">${escaped(title)}</text>`,
    `<clipPath id="box"><rect x="${box.left}" y="${box.top}" width="${box.width}" height="${box.height}"/></clipPath>`,
  ];
  for (const tick of ticks.y) {
    const at = box.top + tick.at * box.height;
    parts.push(`<path d="M${box.left} ${at}H${box.left + box.width}" stroke="#e4e6ec"/>`);
    parts.push(`<text x="${box.left - 8}" y="${at + 4}" text-anchor="end" fill="#565d6e">${escaped(tick.text)}</text>`);
  }
  for (const tick of ticks.x) {
    const at = box.left + tick.at * box.width;
    parts.push(`<text x="${at}" y="${box.top + box.height + 20}" text-anchor="middle" fill="#565d6e">${escaped(tick.text)}</text>`);
  }
  parts.push(`<g clip-path="url(#box)" fill="none" stroke-linejoin="bevel">`);
  for (const line of lines) {
    if (line.low === null) continue;
    const path = new Path();
    outline(path, line, x, y);
    parts.push(`<path d="${path.text}Z" fill="${line.colour}" fill-opacity="0.16"/>`);
  }
  for (const line of lines) {
    const path = new Path();
    trace(path, line.x, line.y, x, y);
    parts.push(`<path d="${path.text}" stroke="${line.colour}" stroke-width="1.5"/>`);
    const marked = new Path();
    for (const mark of gaps(line, box, x, y, APART)) triangle(marked, mark, 5);
    if (marked.text) parts.push(`<path d="${marked.text}" fill="${line.colour}"/>`);
  }
  parts.push("</g>");
  named.forEach((line, at) => {
    const left = box.left + (at % 3) * (box.width / 3);
    const top = HEIGHT - 12 + Math.floor(at / 3) * 18;
    parts.push(`<rect x="${left}" y="${top}" width="12" height="3" fill="${line.colour}"/>`);
    parts.push(`<text x="${left + 18}" y="${top + 5}" fill="#1b1e28">${escaped(line.label.slice(0, 36))}</text>`);
  });
  return `${parts.join("\n")}\n</svg>\n`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);
}
