/// The page's texts. Every text has a key; `t` gives it in the language that was chosen, with values
/// put in for {names}. A text may have a form for one, before a bar: "{n} run|{n} runs".

import { en, type Key } from "../i18n/en";
import { isolated } from "./bidi";

export type Language = "en" | "zh";
export const languages: Record<Language, string> = { en: "English", zh: "中文" };
/// A cookie, as the hub's own pages and messages are in the same language: `hub/language.py`.
const NAME = "tbhub-language";
const SECONDS = 365 * 86400;
type Texts = Record<Key, string>;
type Values = Record<string, string | number>;

let language = $state<Language>("en");
let texts = $state.raw<Texts>(en);

/// The text of a key.
export function t(key: Key, values: Values = {}): string {
  return fill(texts[key], values);
}

/// A text with its values; `n` decides between one and many.
export function fill(text: string, values: Values): string {
  const forms = text.split("|");
  const form = forms.length > 1 && values.n !== 1 ? forms[1]! : forms[0]!;
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? value.toLocaleString(language) : isolated(value);
  });
}

export function currentLanguage(): Language {
  return language;
}

async function load(wanted: Language): Promise<void> {
  texts = wanted === "zh" ? (await import("../i18n/zh")).zh : en;
  language = wanted;
  document.documentElement.lang = wanted === "zh" ? "zh-CN" : "en";
}

/// Chooses a language from now on, for this page and the hub's own.
export async function choose(wanted: Language): Promise<void> {
  const path = new URL(document.baseURI).pathname;
  document.cookie = `${NAME}=${wanted}; Path=${path}; Max-Age=${SECONDS}; SameSite=Lax`;
  await load(wanted);
}

/// What was chosen before, or what the browser asks for.
export async function chooseAtFirst(): Promise<void> {
  const kept = new RegExp(`(?:^|; )${NAME}=(\\w+)`).exec(document.cookie)?.[1];
  const wanted = kept ?? (navigator.language.startsWith("zh") ? "zh" : "en");
  if (wanted === "zh") await load("zh");
}
