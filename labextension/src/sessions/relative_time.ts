/** How long ago something was, in the words of the page's language. */

const UNITS: readonly [unit: Intl.RelativeTimeFormatUnit, seconds: number][] = [
  ["year", 31_557_600],
  ["month", 2_629_800],
  ["week", 604_800],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

/** The language of the page; the browser's where the page does not say. */
export function pageLanguage(): string | undefined {
  const { lang } = document.documentElement;
  try {
    return Intl.getCanonicalLocales(lang.replace("_", "-"))[0] ?? navigator.language;
  } catch {
    return navigator.language; // what JupyterLab was told to speak is no language
  }
}

/** `at` and `now` in seconds since the epoch. */
export function relativeTime(at: number, now: number, language = pageLanguage()): string {
  const words = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  const ago = Math.max(0, now - at);
  const [unit, seconds] = UNITS.find(([, seconds]) => ago >= seconds) ?? ["second", 1];
  if (unit === "second") return words.format(0, "second");
  return words.format(-Math.floor(ago / seconds), unit);
}
