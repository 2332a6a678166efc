// Against a running service, which this file starts, kills and starts again by the command that it is given.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import {
  Client,
  Conflict,
  type Decision,
  InvalidRequest,
  NotAllowed,
  NotFound,
  ServiceError,
  Unavailable,
} from "../src/index.js";

interface Ward {
  age: number;
  sex: "f" | "m";
}

const given = (name: string): string => process.env[name] ?? assert.fail(`${name} is not set`);
const url = given("TIGHTROPE_URL");
const key = given("TIGHTROPE_KEY");
const [program, ...args] = JSON.parse(given("TIGHTROPE_SERVE")) as [string, ...string[]];
const client = new Client<Ward>(url, { key, patienceMs: 60_000 });
let service: ChildProcess;

async function start(): Promise<void> {
  service = spawn(program, args, { stdio: ["ignore", "inherit", "inherit"] });
  while (!(await fetch(`${url}/readyz`).then((answer) => answer.ok, () => false))) {
    assert.equal(service.exitCode, null, "the service ended");
    await sleep(25);
  }
}

before(start);
after(async () => {
  service.kill("SIGKILL");
  await once(service, "exit");
});

test("a decision, its outcome, and where that leaves the experiment", async () => {
  const decision = await client.decide({ context: { age: 71, sex: "f" }, explain: true });
  assert.ok(["icu", "surgery", "other"].includes(decision.name));
  assert.equal(decision.explanation?.actions.length, 3);
  const outcome = await client.learn({ event_id: decision.event_id, reward: 1, usage: { hours: 0.5 } });
  assert.deepEqual(outcome.awaits, []);
  const recorded = await client.decision(decision.event_id);
  assert.deepEqual(recorded.outcome, { reward: 1, usage: { hours: 0.5 } });
  assert.deepEqual(recorded.request.context, { age: 71, sex: "f" });
  const state = await client.state();
  assert.equal(state.constraints[1]?.name, "hours");
  assert.ok(Math.abs((state.constraints[1]?.cumulative_cost ?? 1) - -0.1) < 1e-12, "half an hour of at most 0.6");
  assert.equal((await client.decisions({ limit: 1 })).decisions[0]?.event_id, decision.event_id);
  assert.equal(client.unanswered.size, 0);
});

test("a duplicate outcome is answered like the first; one that differs is refused", async () => {
  const { event_id } = await client.decide({ context: { age: 1, sex: "m" } });
  const usage = { hours: 0.5 };
  const first = await client.learn({ event_id, reward: 1, usage });
  assert.deepEqual(await client.learn({ event_id, reward: 1, usage }), first);
  await assert.rejects(client.learn({ event_id, reward: 0 }), (error) => {
    assert.ok(error instanceof Conflict);
    assert.deepEqual([error.status, error.code, error.eventId], [409, "differs", event_id]);
    return true;
  });
  assert.equal((await client.outcomes({ status: "rejected" })).outcomes[0]?.reason, "differs");
  await assert.rejects(client.learn({ event_id: "nobody", reward: 1 }), NotFound);
});

test("the same event id gets the same decision", async () => {
  const request = { event_id: "a/b?c#d ä", context: { age: 50, sex: "f" } } as const;
  const first = await client.decide(request);
  assert.deepEqual(await client.decide(request), first);
  assert.equal((await client.decision("a/b?c#d ä")).sequence, first.sequence);
});

test("bad input is an error that names the field, at once", async () => {
  const patient = new Client(url, { key });
  await assert.rejects(patient.decide({ context: { age: 171, sex: "f" } }), (error) => {
    assert.ok(error instanceof InvalidRequest);
    assert.equal(error.status, 422);
    assert.match(error.message, /context\.age/);
    return true;
  });
  await assert.rejects(client.decide({ context: { age: NaN, sex: "f" } }), /age must be finite, but got NaN/);
  assert.equal(client.unanswered.size, 0);
  // @ts-expect-error: the type of the context is the caller's own
  const wrong: Promise<Decision> = client.decide({ context: { age: 3, sex: "x" } });
  await assert.rejects(wrong, InvalidRequest);
  assert.throws(() => new Client("ftp://example.org"), /http:\/\/host:port/);
  assert.throws(() => new Client(url, { timeoutMs: 0 }), /timeoutMs must be above 0/);
  assert.throws(() => new Client(url, { patienceMs: NaN }), /patienceMs must be at least 0/);
});

test("a wrong key is an error, at once", async () => {
  for (const [bad, status] of [["tr_0_0", 401], [given("TIGHTROPE_READ_KEY"), 403]] as const) {
    await assert.rejects(new Client(url, { key: bad }).decide(), (error) => {
      assert.ok(error instanceof NotAllowed);
      assert.equal(error.status, status);
      return true;
    });
  }
});

test("administrators: mode, snapshot, rollback, erasure", async () => {
  assert.deepEqual(await client.changeMode({ mode: "shadow", default: "other" }), { mode: "shadow", default: "other" });
  const shadowed = await client.decide({ context: { age: 9, sex: "m" } });
  assert.equal(shadowed.name, "other");
  assert.ok(shadowed.proposed);
  await client.changeMode({ mode: "live" });
  const taken = await client.takeSnapshot("before");
  assert.deepEqual((await client.snapshots()).snapshots.at(-1), taken);
  const back = await client.rollBack({ position: taken.position, restore: "learnt" });
  assert.deepEqual(back.restored, taken);
  const gone = await client.erase([shadowed.event_id, "never-heard-of"]);
  assert.deepEqual([gone.erased, gone.unknown], [[shadowed.event_id], ["never-heard-of"]]);
  await assert.rejects(client.decision(shadowed.event_id), { name: "Gone", code: "erased" });
  const kinds = (await client.changes()).changes.map((one) => one.kind);
  assert.deepEqual(kinds, ["erased", "rolled back", "mode", "mode", "started"]);
  assert.ok((await client.history()).decisions.length > 0);
  assert.equal((await client.experiments()).experiments[0]?.name, "ward");
});

test("many at once, in the order of the requests", async () => {
  const contexts = Array.from({ length: 60 }, (_, i) => ({ age: i === 7 ? 500 : i, sex: "f" }) as const);
  const answers = await client.decideMany(contexts.map((context, i) => ({ event_id: `many-${i}`, context })));
  answers.forEach((one, i) => {
    if (i === 7) assert.ok(one instanceof InvalidRequest);
    else assert.equal((one as Decision).event_id, `many-${i}`);
  });
  const decided = answers.filter((one): one is Decision => !(one instanceof ServiceError));
  const learnt = await client.learnMany(decided.map(({ event_id }) => ({ event_id, reward: 1 })));
  assert.equal(learnt.length, 59);
  assert.ok(learnt.every((one) => !(one instanceof ServiceError)));
});

test("503, 429 and a lost answer, then success; no longer than patience, deadline and signal allow", async () => {
  const sent: string[] = [];
  let script: (number | "drop" | "hang")[] = [];
  const front = createServer((request, response) => {
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", () => {
      sent.push(body);
      const step = script.shift() ?? 200;
      if (step === "drop") return void request.socket.destroy();
      if (step === "hang") return;
      const told = step === 200 ? { event_id: "e", action: 0, name: "icu", sequence: 0, probability: 1 } : { error: { code: "busy", message: "not now" } };
      response.writeHead(step, { "Content-Type": "application/json", ...(step === 429 ? { "Retry-After": "1" } : {}) });
      response.end(JSON.stringify(told));
    });
  }).listen(0, "127.0.0.1");
  await once(front, "listening");
  const address = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
  try {
    script = [503, "drop", 429, 502];
    const began = performance.now();
    assert.equal((await new Client(address).decide()).name, "icu");
    assert.ok(performance.now() - began >= 1000, "Retry-After was kept");
    assert.equal(sent.length, 5);
    assert.equal(new Set(sent).size, 1, "the same event each time");

    script = Array.from({ length: 99 }, () => 503);
    const impatient = new Client(address, { patienceMs: 0 });
    await assert.rejects(impatient.decide({ event_id: "mine" }), (error) => {
      assert.ok(error instanceof Unavailable);
      assert.deepEqual([error.status, error.code, error.eventId], [503, "busy", "mine"]);
      return true;
    });
    assert.deepEqual([...impatient.unanswered], [["mine", { event_id: "mine" }]]);
    script = [];
    await impatient.decide(impatient.unanswered.get("mine"));
    assert.equal(impatient.unanswered.size, 0);

    const slow = new Client(address);
    assert.equal((await slow.decide({}, { deadlineMs: 10_000.5 })).name, "icu", "in time");
    script = ["hang"];
    const late = slow.decide({}, { deadlineMs: 80 });
    await assert.rejects(late, { name: "Unavailable", code: "unreachable", message: /1 attempt: .*timeout/ });
    script = ["hang", 200];
    assert.equal((await new Client(address, { timeoutMs: 60 }).decide()).name, "icu", "one attempt times out, the next does not");
    script = ["hang"];
    const asked = slow.decide({ event_id: "left" }, { signal: AbortSignal.timeout(50) });
    await assert.rejects(asked, { name: "TimeoutError" });
    assert.ok(slow.unanswered.has("left"), "an aborted call does not lose its event id");

    const before = sent.length;
    script = ["drop"];
    await assert.rejects(slow.rollBack({ position: 1, restore: "all" }), { code: "unreachable" });
    assert.equal(sent.length, before + 1, "a rollback that may have been done is not repeated");
  } finally {
    front.closeAllConnections();
    front.close();
  }
});

test("a service that is killed and started again loses nothing and decides nothing twice", async () => {
  const before = (await client.state()).decisions;
  const total = 60;
  const asked = Array.from({ length: total }, (_, i) => ({ event_id: `restart-${i}`, context: { age: i, sex: "m" } as const }));
  const answers = client.decideMany(asked, { concurrency: 4 });
  await once(service.kill("SIGKILL") ? service : assert.fail("not running"), "exit");
  await start();
  const decided = await answers;
  assert.deepEqual(decided.map((one) => (one as Decision).event_id), asked.map((one) => one.event_id));
  assert.equal((await client.state()).decisions, before + total);
  const again = await client.decideMany(asked);
  assert.deepEqual(again, decided);
});

test("batches put each answer in its place", async () => {
  const rows: { event_id?: string; context: Ward }[] = Array.from({ length: 300 }, (_, i) => ({
    event_id: `batch-${i}`,
    context: { age: i % 90, sex: "f" },
  }));
  rows[7] = { context: { age: 400, sex: "f" } };
  const answers = await client.decideBatch(rows);
  assert.equal(answers.length, 300);
  const refused = answers[7];
  assert.ok(refused instanceof InvalidRequest && refused.eventId !== undefined);
  const first = answers[0] as Decision;
  assert.deepEqual(await client.decide(rows[0]), first, "a single request gets the same");
  const told = await client.learnBatch([
    { event_id: "batch-0", reward: 1, usage: { hours: 0.5 } },
    { event_id: "nobody", reward: 1 },
  ]);
  assert.deepEqual(told[0], { event_id: "batch-0", sequence: first.sequence, awaits: [] });
  assert.ok(told[1] instanceof NotFound);
  assert.equal(client.unanswered.size, 0);
  const lost = new Client<Ward>("http://127.0.0.1:9", { patienceMs: 0 });
  const failed = await lost.decideBatch([{ event_id: "a" }, { event_id: "b" }]);
  assert.deepEqual(failed.map((one) => one instanceof Unavailable && one.eventId), ["a", "b"]);
  assert.deepEqual([...lost.unanswered.keys()], ["a", "b"]);
  await assert.rejects(client.lift(), NotFound, "there is no control group");
});
