import type { Decision, DecisionRequest, Outcome, OutcomeRequest, paths } from "./api.js";
import { ServiceError, Unavailable, detail, errorOf } from "./errors.js";

type Posts = { [P in keyof paths]: paths[P] extends { post: object } ? P : never }[keyof paths];
type Gets = { [P in keyof paths]: paths[P] extends { get: object } ? P : never }[keyof paths];
type Json<T> = T extends { content: { "application/json": infer Body } } ? Body : never;
type Answer<T> = T extends { responses: { 200: infer Response } } ? Json<Response> : never;
type Body<P extends Posts> = paths[P] extends { post: { requestBody: infer Request } } ? Json<Request> : never;
type Posted<P extends Posts> = Answer<paths[P]["post"]>;
type Got<P extends Gets> = Answer<paths[P]["get"]>;
type Query<P extends Gets> = paths[P] extends { get: { parameters: { query?: infer Asked } } }
  ? Omit<NonNullable<Asked>, "experiment">
  : never;

/** What a context may hold where the experiment's own type is not given. */
export type AnyContext = NonNullable<DecisionRequest["context"]>;

/** What `decide` is given; the client makes an `event_id` where there is none. */
export type DecisionQuestion<Context = AnyContext> = Omit<DecisionRequest, "context"> & {
  context?: Context | null;
};

export interface ClientOptions {
  key?: string | undefined;
  /** Needed where the service has several. */
  experiment?: string | undefined;
  /** Milliseconds that one attempt may take; 10,000 by default. */
  timeoutMs?: number;
  /** Milliseconds after which no attempt begins any more; 10,000 by default. A call's own deadline takes its place. */
  patienceMs?: number;
  /** Carries the requests; by default the platform's. */
  fetch?: typeof fetch;
}

export interface CallOptions {
  /** Ends the call at once. What it asked for may have been done all the same: see `unanswered`. */
  signal?: AbortSignal | undefined;
  /** Milliseconds that the call may take, all attempts together. */
  deadlineMs?: number | undefined;
}

interface Call {
  method: "GET" | "POST";
  path: string;
  query?: object;
  body?: object;
  eventId?: string;
  repeatable?: boolean;
}

// Pauses between attempts double from the first to the longest, each a random part of that, so that callers do not come in step.
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
const AGAIN: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const KEPT = 10_000;
const MOST = 256;
// What a second request would do again, or be refused for.
const ONCE: ReadonlySet<string> = new Set(["/v1/rollback", "/v1/snapshots", "/v1/changes", "/v1/changes/cancel"]);

/**
 * Talks to a Tightrope service.
 *
 * Every decision has an event id, of the caller or made here, so that a request whose answer got lost is simply sent again. What is
 * refused for now (429, 503, a proxy's 502 and 504), is not answered in time or finds no connection is tried again for
 * `patienceMs`, after `Retry-After` where the service says so, else after pauses that grow. Only a rollback, a
 * snapshot and a change are not repeated once the service may have done them.
 */
export class Client<Context extends object = AnyContext> {
  readonly #base: string;
  readonly #options: ClientOptions & { timeoutMs: number; patienceMs: number; fetch: typeof fetch };
  readonly #unanswered = new Map<string, DecisionQuestion<Context>>();

  constructor(url: string, options: ClientOptions = {}) {
    const parsed = new URL(url);
    if (parsed.protocol !== "http:" && parsed.protocol !== "https:") {
      throw new TypeError(`url must be http://host:port or https://host:port, but got ${url}`);
    }
    const { timeoutMs = 10_000, patienceMs = 10_000 } = options;
    if (!(timeoutMs > 0)) throw new RangeError(`timeoutMs must be above 0, but got ${timeoutMs}`);
    if (!(patienceMs >= 0)) throw new RangeError(`patienceMs must be at least 0, but got ${patienceMs}`);
    this.#base = parsed.origin + parsed.pathname.replace(/\/+$/, "");
    this.#options = { fetch: (...given) => fetch(...given), ...options, timeoutMs, patienceMs };
  }

  /**
   * Decisions that were asked for and got no answer: aborted, given up, or under way. By event id, what `decide` was given; `decide`
   * with it asks again, and gets the decision if it was made. The newest 10,000 are kept.
   */
  get unanswered(): ReadonlyMap<string, DecisionQuestion<Context>> {
    return new Map(this.#unanswered);
  }

  /** Ask for a decision. */
  async decide(request: DecisionQuestion<Context> = {}, options?: CallOptions): Promise<Decision> {
    const eventId = request.event_id ?? newEventId();
    const body = { ...request, event_id: eventId };
    const content = toJson(body);
    this.#note(eventId, body);
    return this.#send({ method: "POST", path: "/v1/decisions", eventId }, options, content) as Promise<Decision>;
  }

  /** Report the outcome of a decision, each part of it once; a repeat is answered like the first. */
  async learn(outcome: OutcomeRequest, options?: CallOptions): Promise<Outcome> {
    return this.#post("/v1/outcomes", outcome, options, outcome.event_id);
  }

  /** Ask for many decisions, `concurrency` at a time. Answers are in the order of the requests, the error of one that failed in its place. */
  decideMany(
    requests: Iterable<DecisionQuestion<Context>>,
    options: CallOptions & { concurrency?: number } = {},
  ): Promise<(Decision | ServiceError)[]> {
    return many([...requests], (one) => this.decide(one, options), options.concurrency);
  }

  /** Report many outcomes, as `decideMany` asks for decisions. */
  learnMany(
    outcomes: Iterable<OutcomeRequest>,
    options: CallOptions & { concurrency?: number } = {},
  ): Promise<(Outcome | ServiceError)[]> {
    return many([...outcomes], (one) => this.learn(one, options), options.concurrency);
  }

  /** Ask for many decisions, 256 in each request: as `decideMany`, with less work for both sides. They are made in the order given. */
  async decideBatch(
    requests: Iterable<DecisionQuestion<Context>>,
    options?: CallOptions,
  ): Promise<(Decision | ServiceError)[]> {
    const answers: (Decision | ServiceError)[] = [];
    for (const part of parts(requests)) {
      const items = part.map((one) => ({ ...one, event_id: one.event_id ?? newEventId() }));
      for (const one of items) this.#note(one.event_id, one);
      const body = { decisions: items as Body<"/v1/decisions/batch">["decisions"] };
      const results = await this.#results("/v1/decisions/batch", body, items, options);
      answers.push(...results.map((one) => ("decision" in one && one.decision !== undefined ? one.decision : (one as ServiceError))));
    }
    return answers;
  }

  /** Report many outcomes, 256 in each request; answers as from `decideBatch`. */
  async learnBatch(outcomes: Iterable<OutcomeRequest>, options?: CallOptions): Promise<(Outcome | ServiceError)[]> {
    const answers: (Outcome | ServiceError)[] = [];
    for (const items of parts(outcomes)) {
      const results = await this.#results("/v1/outcomes/batch", { outcomes: items }, items, options);
      answers.push(...results.map((one) => ("outcome" in one && one.outcome !== undefined ? one.outcome : (one as ServiceError))));
    }
    return answers;
  }

  /** A decision, its outcome so far, and why it was taken. */
  decision(eventId: string, options?: CallOptions): Promise<Got<"/v1/decisions/{event_id}">> {
    const path = `/v1/decisions/${encodeURIComponent(eventId)}`;
    return this.#send({ method: "GET", path, eventId }, options) as Promise<Got<"/v1/decisions/{event_id}">>;
  }

  /** The newest decisions, and why they were taken. */
  decisions(query: Query<"/v1/decisions"> = {}, options?: CallOptions) {
    return this.#get("/v1/decisions", query, options);
  }

  /** Outcomes that came late, were rejected, are missing, or are still awaited. */
  outcomes(query: Query<"/v1/outcomes">, options?: CallOptions) {
    return this.#get("/v1/outcomes", query, options);
  }

  /** Where the experiment stands. */
  state(options?: CallOptions) {
    return this.#get("/v1/state", {}, options);
  }

  /** Where it stood at up to 240 moments since it began. */
  history(options?: CallOptions) {
    return this.#get("/v1/history", {}, options);
  }

  /** About what each rule costs in reward. */
  rules(options?: CallOptions) {
    return this.#get("/v1/rules", {}, options);
  }

  /** Where limits per window stand: of one rule or all, for one key or for those closest to their limits. */
  windows(query: Query<"/v1/windows"> = {}, options?: CallOptions) {
    return this.#get("/v1/windows", query, options);
  }

  /** What the policy earns and uses more than the control group's baseline. */
  lift(options?: CallOptions) {
    return this.#get("/v1/lift", {}, options);
  }

  /** Changes of its configuration, newest first. */
  changes(query: Query<"/v1/changes"> = {}, options?: CallOptions) {
    return this.#get("/v1/changes", query, options);
  }

  /** Snapshots that can be rolled back to. */
  snapshots(options?: CallOptions) {
    return this.#get("/v1/snapshots", {}, options);
  }

  /** The experiments that the key opens. */
  experiments(options?: CallOptions) {
    return this.#get("/v1/experiments", {}, options);
  }

  /** Correct an outcome that was reported wrongly; parts that are left out stay as they are. */
  correct(correction: Body<"/v1/corrections">, options?: CallOptions) {
    return this.#post("/v1/corrections", correction, options, correction.event_id);
  }

  /** Change actions and rules together, at once or from a time on, or only check. Needs the scope `admin`. */
  change(change: Body<"/v1/changes">, options?: CallOptions) {
    return this.#post("/v1/changes", change, options);
  }

  /** Cancel a change that has not begun yet. */
  cancelChange(position: number, options?: CallOptions) {
    return this.#post("/v1/changes/cancel", { position }, options);
  }

  /** Go live, into shadow mode, or pause. Needs the scope `admin`, as all that follow. */
  changeMode(mode: Body<"/v1/mode">, options?: CallOptions) {
    return this.#post("/v1/mode", mode, options);
  }

  /** Keep the current state under a name. */
  takeSnapshot(label: string, options?: CallOptions) {
    return this.#post("/v1/snapshots", { label }, options);
  }

  /** Go back to a snapshot. */
  rollBack(to: Body<"/v1/rollback">, options?: CallOptions) {
    return this.#post("/v1/rollback", to, options);
  }

  /** Erase the inputs and outcomes of events for good, at most 1,000 at once. */
  erase(eventIds: readonly string[], options?: CallOptions) {
    return this.#post("/v1/erasures", { event_ids: [...eventIds] }, options);
  }

  #note(eventId: string, question: DecisionQuestion<Context>): void {
    this.#unanswered.set(eventId, question);
    for (const oldest of this.#unanswered.keys()) {
      if (this.#unanswered.size <= KEPT) break;
      this.#unanswered.delete(oldest);
    }
  }

  /** What became of each item of a batch: its result, or the error that it means; of a batch that failed, one error for each. */
  async #results<P extends "/v1/decisions/batch" | "/v1/outcomes/batch">(
    path: P,
    body: Body<P>,
    items: readonly { event_id?: string | null }[],
    options?: CallOptions,
  ): Promise<(Posted<P>["results"][number] | ServiceError)[]> {
    const eventIds = items.map((one) => one.event_id ?? undefined);
    try {
      const { results } = await this.#post(path, body, options);
      return results.map((one, i) => {
        const eventId = eventIds[i];
        if (!AGAIN.has(one.status) && eventId !== undefined) this.#unanswered.delete(eventId);
        return one.status === 200 ? one : errorOf(one.status, JSON.stringify({ error: one.error }), eventId);
      });
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      if (!AGAIN.has(error.status)) for (const one of eventIds) if (one !== undefined) this.#unanswered.delete(one);
      return eventIds.map((eventId) => errorOf(error.status, JSON.stringify({ error: { code: error.code, message: error.reason } }), eventId));
    }
  }

  #get<P extends Gets>(path: P, query: Query<P> | Record<string, never>, options?: CallOptions): Promise<Got<P>> {
    return this.#send({ method: "GET", path, query }, options) as Promise<Got<P>>;
  }

  #post<P extends Posts>(path: P, body: Body<P>, options?: CallOptions, eventId?: string): Promise<Posted<P>> {
    const repeatable = !ONCE.has(path);
    const call: Call = { method: "POST", path, repeatable, ...(eventId === undefined ? {} : { eventId }) };
    return this.#send(call, options, toJson(body)) as Promise<Posted<P>>;
  }

  /** All attempts at one call. */
  async #send(call: Call, options: CallOptions = {}, content?: string): Promise<unknown> {
    const { signal, deadlineMs } = options;
    const { repeatable = true } = call;
    const began = performance.now();
    const url = this.#url(call);
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted();
      const left = deadlineMs === undefined ? Infinity : Math.max(1, began + deadlineMs - performance.now());
      let pause: number | undefined;
      try {
        const { status, text, retryAfter } = await this.#attempt(call.method, url, content, left, signal);
        // 503 `unavailable` leaves open whether it was done, and a proxy's 502 and 504 too.
        const open = status !== 429 && (status !== 503 || ["unavailable", "unexpected"].includes(detail(text).code));
        if (AGAIN.has(status) && (repeatable || !open)) {
          pause = this.#pause(attempt, began, deadlineMs, retryAfter);
        }
        if (pause === undefined) {
          if (!AGAIN.has(status) && call.eventId !== undefined) this.#unanswered.delete(call.eventId);
          return read(status, text, call.eventId);
        }
      } catch (error) {
        if (error instanceof ServiceError) throw error;
        signal?.throwIfAborted();
        if (repeatable || isUnsent(error)) pause = this.#pause(attempt, began, deadlineMs);
        if (pause === undefined) {
          const times = attempt === 1 ? "1 attempt" : `${attempt} attempts`;
          const words = `no answer from the service in ${times}: ${reasonOf(error)}`;
          throw new Unavailable(503, "unreachable", words, { eventId: call.eventId, cause: error });
        }
      }
      await sleep(pause, signal);
    }
  }

  /** One attempt: what came, or the platform's error. */
  async #attempt(method: string, url: string, content: string | undefined, left: number, signal?: AbortSignal) {
    // A timer takes whole milliseconds, and no more than 31 bits of them.
    const timeout = AbortSignal.timeout(Math.ceil(Math.min(this.#options.timeoutMs, left, 0x7fffffff)));
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.#options.key !== undefined) headers["Authorization"] = `Bearer ${this.#options.key}`;
    const response = await this.#options.fetch(url, {
      method,
      headers,
      body: content ?? null,
      redirect: "manual",
      signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
    });
    const text = await response.text();
    return { status: response.status, text, retryAfter: response.headers.get("Retry-After") };
  }

  /** Milliseconds until the next attempt; undefined where it would come too late. */
  #pause(attempt: number, began: number, deadlineMs: number | undefined, retryAfter?: string | null): number | undefined {
    const asked = retryAfter != null && /^\d+$/.test(retryAfter) ? 1000 * Number(retryAfter) : 0;
    const growing = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempt - 1, 10));
    const pause = asked + growing * (0.5 + 0.5 * Math.random());
    const limit = deadlineMs ?? this.#options.patienceMs;
    return performance.now() + pause <= began + limit ? pause : undefined;
  }

  #url(call: Call): string {
    const query = new URLSearchParams();
    const { experiment } = this.#options;
    if (experiment !== undefined && call.path !== "/v1/experiments") query.set("experiment", experiment);
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value != null) query.set(name, String(value));
    }
    return this.#base + call.path + (query.size > 0 ? `?${query}` : "");
  }
}

/** An id that no other event has. */
export function newEventId(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

/** As many at a time as the service takes in one request. */
function* parts<One>(items: Iterable<One>): Generator<One[]> {
  let part: One[] = [];
  for (const one of items) {
    part.push(one);
    if (part.length === MOST) {
      yield part;
      part = [];
    }
  }
  if (part.length > 0) yield part;
}

async function many<One, Result>(
  items: readonly One[],
  ask: (one: One) => Promise<Result>,
  concurrency = 16,
): Promise<(Result | ServiceError)[]> {
  const results = new Array<Result | ServiceError>(items.length);
  const rest = items.entries();
  const work = async () => {
    // All workers draw from the one iterator.
    for (const [i, one] of rest) {
      results[i] = await ask(one).catch((error: unknown) => {
        if (error instanceof ServiceError) return error;
        throw error;
      });
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, work));
  return results;
}

/** JSON that says what was meant: `JSON.stringify` makes null of NaN. */
function toJson(body: object): string {
  return JSON.stringify(body, (name, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value)) {
      throw new TypeError(`${name} must be finite, but got ${value}`);
    }
    return value;
  });
}

function read(status: number, text: string, eventId?: string): unknown {
  if (status !== 200) throw errorOf(status, text, eventId);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw errorOf(status, text, eventId);
  }
}

/** Whether nothing of the request has left: no connection was made. */
function isUnsent(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes(code);
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  const words = [error, cause].filter((one) => one instanceof Error).map((one) => one.message || one.name);
  return words.join(": ") || String(error);
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
