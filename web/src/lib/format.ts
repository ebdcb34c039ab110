/// Numbers, times and sizes as people read them. Pure; the language is given.

const UNITS: [number, Intl.RelativeTimeFormatUnit][] = [
  [31_536_000, "year"],
  [2_592_000, "month"],
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
];
// Making one takes far longer than using it, and a table has hundreds of uses.
const relative = new Map<string, Intl.RelativeTimeFormat>();
const moments = new Map<string, Intl.DateTimeFormat>();
const whole = new Intl.NumberFormat("en");

/// "5 minutes ago"; less than a minute is "now".
export function ago(time: string, now: number, language = "en"): string {
  let format = relative.get(language);
  if (!format) {
    format = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });
    relative.set(language, format);
  }
  const seconds = (Date.parse(time) - now) / 1000;
  for (const [size, unit] of UNITS) {
    if (Math.abs(seconds) >= size) return format.format(Math.trunc(seconds / size), unit);
  }
  return format.format(0, "second");
}

/// The day and the time, to the second, where the reader is.
export function exactly(time: string, language = "en"): string {
  let format = moments.get(language);
  if (!format) {
    const locale = language === "en" ? undefined : language;
    format = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" });
    moments.set(language, format);
  }
  return format.format(new Date(time));
}

/// "2d 4h", "3m 12s", "0.8s": the two largest parts.
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), "d"],
    [Math.floor(whole / 3_600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "m"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(first, first + 2)
    .filter(([count], at) => at === 0 || count > 0)
    .map(([count, unit]) => `${count}${unit}`)
    .join(" ");
}

/// A value with about five digits that count: 0.31416, 12,345, 1.2e-7. What is no number says so.
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return whole.format(value).replace("-", "−");
  if (size >= 1e7 || size < 1e-4) return trim(value.toExponential(3)).replace("e+", "e").replaceAll("-", "−");
  const digits = Math.max(0, Math.min(6, 4 - Math.floor(Math.log10(size))));
  const text = trim(value.toFixed(digits));
  return (size >= 10_000 ? whole.format(Number(text)) : text).replace("-", "−");
}

function trim(text: string): string {
  return text.replace(/\.(\d*?)0+(?=$|e)/, (_, kept: string) => (kept ? `.${kept}` : ""));
}

/// A number where there is little room: 12.5k, 3M.
export function short(value: number): string {
  const size = Math.abs(value);
  const [by, unit] = size >= 1e9 ? [1e9, "B"] : size >= 1e6 ? [1e6, "M"] : size >= 1e3 ? [1e3, "k"] : [1, ""];
  return by === 1 ? number(value) : `${+(value / by).toPrecision(4)}${unit}`.replace("-", "−");
}

/// "1.4 MB".
export function bytes(size: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let at = 0;
  while (Math.abs(size) >= 1000 && at < units.length - 1) {
    size /= 1000;
    at++;
  }
  return `${at === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[at]}`;
}

/// A hyperparameter as its author wrote it.
export function hparam(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : trim(precise(value));
  return String(value);
}

function precise(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential().replace("e+", "e");
  return String(Number(value.toPrecision(12)));
}
