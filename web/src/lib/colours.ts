/// Colours that stay: of a run by its number, of a value by the values there are. A line is thin, so
/// colours are few and far apart; all are seen on their ground (3:1), in the light and in the dark.

// Chosen by a search for the greatest least distance in both themes, and put in an order in which
// neighbours differ most: runs that are compared often have numbers near each other.
const LIGHT = [
  "#326af3", "#9b980b", "#d81d4a", "#038c70", "#9448db", "#845001", "#065bb5", "#c97f14", "#8f17a6", "#037138",
  "#ac1d03", "#c95be2", "#907406", "#a70869", "#0b84a5", "#5f36cc", "#0e9021", "#b75905", "#ba33ae", "#606303",
];
const DARK = [
  "#8ab0fe", "#e1dc13", "#fd8993", "#13cea6", "#c697fe", "#c97f14", "#3c91fd", "#fec990", "#c266d7", "#11ae5b",
  "#ee5c43", "#f2bffd", "#d4ad03", "#e2589e", "#15c3f2", "#907afb", "#5ace5e", "#ff9044", "#f380e5", "#959a05",
];
const ALIKE = 0.13; // a distance below which two thin lines are taken for one
const LIGHTNESS = 0.6; // how much it counts: thin lines are told apart by their hue rather

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
  return (isDark ? DARK : LIGHT)[number % LIGHT.length]!;
}

/// The colours of runs that are shown together. Each has that of its number, unless one before it
/// (by number) has one like it: then it gets what is farthest from all before it. So runs that come
/// later change no colour, and everybody sees the same.
export function ofRuns(runs: readonly number[], isDark: boolean): (run: number) => string {
  const places = new Map<number, number>();
  let taken: number[] = [];
  for (const run of [...runs].sort((one, other) => one - other)) {
    // More runs than colours: from here on they are given a second time.
    if (taken.length === LIGHT.length) taken = [];
    const place = placeBeside(taken, run % LIGHT.length);
    places.set(run, place);
    taken.push(place);
  }
  return (run) => ofNumber(places.get(run) ?? run, isDark);
}

function placeBeside(taken: readonly number[], own: number): number {
  const room = (place: number) => Math.min(Infinity, ...taken.map((other) => DISTANCES[place]![other]!));
  if (room(own) >= ALIKE) return own;
  let best = own;
  for (let place = 0; place < LIGHT.length; place++) if (room(place) > room(best)) best = place;
  return best;
}

/// How far two colours are apart at least, be it light or dark.
const DISTANCES = LIGHT.map((_, one) =>
  LIGHT.map((_, other) =>
    Math.min(...[LIGHT, DARK].map((colours) => distance(colours[one]!, colours[other]!))),
  ),
);

/// How different lines of two colours look (OKLab).
export function distance(one: string, other: string): number {
  const [a, b] = [lab(one), lab(other)];
  return Math.hypot(...a.map((each, at) => each - b[at]!));
}

function lab(colour: string): number[] {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const x = parseInt(colour.slice(at, at + 2), 16) / 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  const l = Math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const m = Math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const s = Math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  return [
    LIGHTNESS * (0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s),
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
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
