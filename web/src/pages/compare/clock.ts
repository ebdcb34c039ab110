/// Moments on an axis: the same for every reader but for their time zone, and never twelve hours
/// twice a day. Pure.

const DAY = 86_400;

const two = (value: number) => String(value).padStart(2, "0");

function day(date: Date): string {
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/// "2026-11-16 16:04:07", of seconds since the epoch.
export function moment(seconds: number): string {
  const date = new Date(seconds * 1000);
  return `${day(date)} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/// The marks of an axis so many seconds apart: the time, and below it the day where another begins.
export function moments(at: readonly (number | null)[], apart: number): string[] {
  let before = "";
  return at.map((seconds) => {
    if (seconds === null) return "";
    const date = new Date(seconds * 1000);
    const today = day(date);
    if (apart >= DAY) return today;
    const time = `${two(date.getHours())}:${two(date.getMinutes())}${apart < 60 ? `:${two(date.getSeconds())}` : ""}`;
    const text = today === before ? time : `${time}\n${today}`;
    before = today;
    return text;
  });
}
