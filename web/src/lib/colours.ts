/// Colours that stay: of a run by its number, of a value by the values there are. Hues are a golden
/// angle apart, so that neighbours differ; lightness is even, so that no line hides the others.

const GOLDEN = 137.508;

/// Lightness, chroma and hue (OKLCH) as a colour that any program knows.
export function oklch(lightness: number, chroma: number, hue: number): string {
  const angle = (hue * Math.PI) / 180;
  const a = chroma * Math.cos(angle);
  const b = chroma * Math.sin(angle);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const parts = linear.map((each) => {
    const x = Math.min(1, Math.max(0, each));
    const encoded = x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055;
    return Math.round(255 * encoded)
      .toString(16)
      .padStart(2, "0");
  });
  return `#${parts.join("")}`;
}

/// The colour of a number: always the same, whoever else is there.
export function ofNumber(number: number, isDark: boolean): string {
  const hue = (265 + number * GOLDEN) % 360;
  const step = (number % 3) - 1;
  return isDark ? oklch(0.76 + 0.05 * step, 0.13, hue) : oklch(0.58 + 0.06 * step, 0.16, hue);
}

/// From dark to bright (in the dark: the other way), for numbers in their order; `at` is 0 to 1.
export function ramp(at: number, isDark: boolean): string {
  const x = Math.min(1, Math.max(0, at));
  const hue = 300 - 210 * x;
  return isDark ? oklch(0.6 + 0.28 * x, 0.14, hue) : oklch(0.36 + 0.36 * x, 0.15, hue);
}

export type Value = string | number | boolean | null | undefined;

/// The colour of each value among all there are: a ramp for numbers, by their logarithm where they
/// span it; colours apart for anything else. What is missing is grey.
export function byValue(values: Value[], isDark: boolean): (value: Value) => string {
  const grey = isDark ? "#7a8192" : "#9aa0ad";
  const known = [...new Set(values.filter((each) => each !== null && each !== undefined))];
  const numbers = known.filter((each): each is number => typeof each === "number" && Number.isFinite(each));
  if (numbers.length === known.length && numbers.length > 1) {
    const low = Math.min(...numbers);
    const high = Math.max(...numbers);
    const scale = low > 0 && high / low >= 50 ? Math.log : (x: number) => x;
    const span = scale(high) - scale(low);
    return (value) =>
      typeof value === "number" ? ramp((scale(value) - scale(low)) / span, isDark) : grey;
  }
  const order = known.map(String).sort();
  return (value) =>
    value === null || value === undefined ? grey : ofNumber(order.indexOf(String(value)), isDark);
}
