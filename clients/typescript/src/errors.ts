/** The service refused, or did not answer: `status` is HTTP's, `code` the service's word for the reason. */
export class ServiceError extends Error {
  /** The event that the call was about, also where the client had made the id: with it the same request can be sent again. */
  readonly eventId: string | undefined;

  constructor(
    readonly status: number,
    readonly code: string,
    readonly reason: string,
    options: { eventId?: string | undefined; cause?: unknown } = {},
  ) {
    super(`${status} ${code}: ${reason}`, { cause: options.cause });
    this.name = new.target.name;
    this.eventId = options.eventId;
  }
}

/** 400, 408, 413, 422, 431: the request is not what it must be; the message names the field. */
export class InvalidRequest extends ServiceError {}

/** 401, 403: no key, an unknown one, or one that does not open this. */
export class NotAllowed extends ServiceError {}

/** 404: no such event, experiment, snapshot or route. */
export class NotFound extends ServiceError {}

/** 409: at odds with what was recorded (`differs`), or hard caps leave nothing to choose (`exhausted`). */
export class Conflict extends ServiceError {}

/** 410: the outcome came too `late`, or the event was `erased`. */
export class Gone extends ServiceError {}

/** 429, 502, 503, 504, or no answer at all (`unreachable`), for as long as it was tried: send the same event again later. */
export class Unavailable extends ServiceError {}

const KINDS: ReadonlyMap<number, typeof ServiceError> = new Map([
  ...[400, 408, 413, 422, 431].map((status) => [status, InvalidRequest] as const),
  ...[401, 403].map((status) => [status, NotAllowed] as const),
  [404, NotFound] as const,
  [409, Conflict] as const,
  [410, Gone] as const,
  ...[429, 502, 503, 504].map((status) => [status, Unavailable] as const),
]);

/** The error that an answer with this status and this text is. */
export function errorOf(status: number, text: string, eventId?: string): ServiceError {
  const { code, message } = detail(text);
  return new (KINDS.get(status) ?? ServiceError)(status, code, message, { eventId });
}

/** Code and message of an answer that is not 200. */
export function detail(text: string): { code: string; message: string } {
  try {
    const { error } = JSON.parse(text) as { error: { code: unknown; message: unknown } };
    return { code: String(error.code), message: String(error.message) };
  } catch {
    return { code: "unexpected", message: `not an answer of the service: ${text.slice(0, 200)}` };
  }
}
