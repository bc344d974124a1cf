/** Numbers as people read them. */

/** "4 ms", "2.3 s", "12 s", "1 min 5 s", "2 h 3 min". */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  return wholeSeconds(seconds);
}

/** The same for a clock that ticks: no fractions. */
export function wholeSeconds(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** US dollars with at least two digits that count. Python's `dollars` says the same. */
export function dollars(amount: number): string {
  if (amount > 0 && amount < 0.0001) return "under $0.0001";
  return `$${amount.toFixed(amount >= 0.1 || amount === 0 ? 2 : amount >= 0.01 ? 3 : 4)}`;
}

/** "950", "5.2k", "120k", "1.2M". */
export function count(number: number): string {
  if (number < 1000) return `${number}`;
  const [scaled, unit] = number < 999_500 ? [number / 1000, "k"] : [number / 1_000_000, "M"];
  return `${scaled < 9.95 ? scaled.toFixed(1) : Math.round(scaled)}${unit}`;
}

export function plural(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** "1 file, 2 cells"; empty if nothing was changed. Python's `change_words` says the same. */
export function changeWords(files: number, cells: number): string {
  return [files > 0 && plural(files, "file"), cells > 0 && plural(cells, "cell")].filter(Boolean).join(", ");
}

/** "+3 −1". */
export function lineCounts(added: number, removed: number): string {
  return `+${added} −${removed}`;
}

/** A step that took less says no time. */
export const SHOWN_MS = 1000;
