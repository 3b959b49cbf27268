/** Answers that are not a success, as errors. The one place where codes become classes. */

import {
  BadAnswer,
  DifferentDefinition,
  type ErrorFields,
  Exhausted,
  Forbidden,
  Invalid,
  KeymillError,
  NoKeysReady,
  RateLimited,
  Sealed,
  Taken,
  Unauthorized,
  Unavailable,
  UnknownAlias,
  UnknownKeyspace,
  WrongKind,
} from "./errors.js";
import { Fields } from "./fields.js";
import type { Answer } from "./line.js";

type ErrorClass = new (detail: string, fields: ErrorFields) => KeymillError;

const BY_CODE = new Map<string, ErrorClass>([
  ["exhausted", Exhausted],
  ["sealed", Sealed],
  ["no_keys_ready", NoKeysReady],
  ["no_worker", NoKeysReady],
  ["pool_filling", NoKeysReady],
  ["unknown_space", UnknownKeyspace],
  ["unknown_alias", UnknownAlias],
  ["taken", Taken],
  ["different_definition", DifferentDefinition],
  ["wrong_kind", WrongKind],
]);

/** For all other codes, those of later versions too. */
const BY_STATUS = new Map<number, ErrorClass>([
  [400, Invalid],
  [401, Unauthorized],
  [403, Forbidden],
  [413, Invalid],
  [415, Invalid],
  [429, RateLimited],
  [502, Unavailable],
  [503, Unavailable],
  [504, Unavailable],
]);

/** The error in an answer whose status is not one of success. `hide` takes secrets out of a text. */
export function errorOf(answer: Answer, server: string, hide: (text: string) => string): KeymillError {
  const { status } = answer;
  const retryAfter = readRetryAfter(answer);
  try {
    const problem = Fields.of(answer.body);
    const code = problem.text("code");
    const requestId = problem.optionalText("request_id") ?? answer.header("x-request-id");
    const heldElsewhere = problem.optionalWhole("held_elsewhere");
    const differences = readDifferences(problem);
    const kind = BY_CODE.get(code) ?? BY_STATUS.get(status) ?? KeymillError;
    const fields = { code, status, requestId, server, retryAfter, heldElsewhere, differences };
    return new kind(hide(problem.text("detail")), fields);
  } catch (error) {
    if (!(error instanceof BadAnswer)) {
      throw error;
    }
  }
  // No keymill server has written it: a proxy in between, or something else.
  const start = JSON.stringify(hide(answer.body).slice(0, 80));
  const kind = status >= 502 && status <= 504 ? Unavailable : BadAnswer;
  const fields = { code: "bad_answer", status, server, retryAfter };
  return new kind(`the server answered with status ${status}: ${start}`, fields);
}

/** For how many milliseconds a server asks to be left alone. */
export function retryAfterOf(error: KeymillError): number {
  const isPassing = error instanceof NoKeysReady || error instanceof RateLimited || error instanceof Unavailable;
  return isPassing ? (error.retryAfter ?? 0) : 0;
}

/** By how many milliseconds a time is later than the answer, by the clock of the server, or else by that of this machine. */
export function timeUntil(time: number, answer: Answer): number {
  const sent = Date.parse(answer.header("date") ?? "");
  return time - (Number.isNaN(sent) ? Date.now() : sent);
}

function readRetryAfter(answer: Answer): number | undefined {
  const text = answer.header("retry-after")?.trim() ?? "";
  if (/^\d+$/.test(text)) {
    return Number(text.slice(0, 9)) * 1_000;
  }
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : Math.max(0, timeUntil(time, answer));
}

function readDifferences(problem: Fields) {
  const differences = problem.optionalParts("differences") ?? [];
  return differences.map((each) => ({
    setting: each.text("setting"),
    stored: each.text("stored"),
    asked: each.text("asked"),
  }));
}
