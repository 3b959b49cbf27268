// Figures in words.

const wholeFormat = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compactFormat = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const timeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const dayFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const clockFormat = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

// A number of the server, which is a text above 2^53: exact as text, near enough as a number.
const exact = number => (typeof number === "string" ? BigInt(number).toLocaleString("en") : wholeFormat.format(number));
function compact(number) {
  const value = Number(number);
  if (value < 10000) return wholeFormat.format(value);
  if (value < 1e15) return compactFormat.format(value);
  return power(value);
}
// A large number as a power of ten, such as 1.3 × 10²¹.
function power(value) {
  const exponent = Math.floor(Math.log10(value)), digits = [..."⁰¹²³⁴⁵⁶⁷⁸⁹"];
  const mantissa = (value / 10 ** exponent).toFixed(1).replace(".0", "");
  return `${mantissa} × 10${[...String(exponent)].map(digit => digits[digit]).join("")}`;
}
function rateText(rate) {
  if (rate === null || rate === undefined) return "–";
  if (rate === 0) return "0";
  if (rate < 0.1) return "< 0.1";
  return rate < 10 ? rate.toFixed(1) : compact(Math.round(rate));
}
function latencyText(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return `${trim(seconds * 1e6)} µs`;
  if (seconds < 1) return `${trim(seconds * 1e3)} ms`;
  return `${trim(seconds)} s`;
}
const trim = value => (value < 10 ? value.toFixed(1).replace(".0", "") : wholeFormat.format(value));
// A share of 1 in percent, however small.
function percentText(share) {
  if (share === 0) return "0 %";
  if (share >= 0.1) return `${(share * 100).toFixed(0)} %`;
  if (share >= 0.0001) return `${(share * 100).toPrecision(2)} %`;
  return "< 0.01 %";
}
// A chance as "once in so many guesses".
const oddsText = chance => (chance <= 0 ? "never" : chance >= 0.5 ? "nearly every time" : `1 in ${compact(Math.round(1 / chance))}`);

const SECONDS = [["year", 31556952], ["month", 2629746], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
// A time in its largest unit.
function durationText(seconds) {
  if (!Number.isFinite(seconds)) return "for ever";
  // Half a year is easier to grasp in days than in months.
  const [unit, size] = SECONDS.find(([unit, size]) => seconds >= (unit === "month" ? 6 * size : size)) || SECONDS[5];
  const count = Math.floor(seconds / size);
  const shown = count >= 1e6 ? compact(count) : exact(count);
  return `${shown} ${unit}${count === 1 ? "" : "s"}`;
}
// How long ago a time was, by the clock of the server.
function agoText(time) {
  const seconds = (serverNow() - Date.parse(time)) / 1000;
  if (seconds < 1.5) return "now";
  if (seconds < 100) return `${Math.round(seconds)} s ago`;
  return `${durationText(seconds)} ago`;
}
// A time that may be ages away.
function untilText(time) {
  const seconds = (Date.parse(time) - serverNow()) / 1000;
  return seconds < 0 ? "now" : durationText(seconds);
}
const timeOf = time => make("time", { datetime: time, title: timeFormat.format(new Date(time)), text: agoText(time) });
const plural = (count, word) => `${exact(count)} ${word}${Number(count) === 1 ? "" : "s"}`;
