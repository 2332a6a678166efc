// Reads the service's own routes every moment and shows where an experiment stands. Texts go in as text, never as HTML.
"use strict";

(() => {
  const POLL = 1500;
  const POLL_HIDDEN = 30000;
  const SLOWEST = 30000;
  const TIMEOUT = 10000;
  const HISTORY_EVERY = 4000;
  const WORTH_EVERY = 60000;
  const RATE_WINDOW = 10000;
  const KEY = "tightrope-key";
  const SERIES = 8;
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px 2px 1px 2px", "2px 4px"];
  const PLOTLY = document.currentScript.dataset.plotly;

  const words = globalThis.tightropeWords;
  const { NOTHING, whole, clock, fixed, plain, percent, signed, count, amount, moment, pace, sentence } = words;
  const { violated, pressure, drawn, chance } = words;
  const wording = (constraint) => words.wording(view.state, constraint);
  const priced = () => words.priced(view.state);

  const $ = (id) => document.getElementById(id);

  // A browser may deny storage; the key then lasts until the page is left.
  const storage = (() => {
    try {
      return window.sessionStorage;
    } catch {
      return { getItem: () => null, setItem() {}, removeItem() {} };
    }
  })();

  const view = {
    key: storage.getItem(KEY),
    experiments: null,
    experimentsAt: 0,
    name: new URLSearchParams(location.hash.slice(1)).get("experiment"),
    state: null,
    history: null,
    historyAt: -Infinity,
    worth: null,
    worthAt: -Infinity,
    lift: null,
    decisions: [],
    windows: [],
    samples: [],
    chosen: null,
    outcomes: { status: null, rows: [], before: null },
    turn: 0,
    timer: 0,
    failures: 0,
    updated: null,
    plotly: "loading",
  };

  // --- elements ---

  function el(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "onclick") made.addEventListener("click", value);
      else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  /** New children, with the focus where it was: elements with the same data-key are the same to the reader. */
  function fill(parent, children) {
    const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    parent.replaceChildren(...children);
    if (focused !== undefined) parent.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  /** Only when it differs, so that screen readers hear of changes alone. */
  function say(id, text) {
    if ($(id).textContent !== text) $(id).textContent = text;
  }

  function bar(share, colour, full = false) {
    const inside = el("span");
    inside.style.width = `${Math.min(100, 100 * share)}%`;
    if (colour) inside.style.background = colour;
    return el("span", { class: full ? "bar full" : "bar", "aria-hidden": "true" }, inside);
  }

  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colourOf = (index) => ink(`--s${(index % SERIES) + 1}`);

  // --- the service ---

  class Refused extends Error {
    constructor(status, code, message, wait) {
      super(message);
      Object.assign(this, { status, code, wait });
    }
  }

  async function get(path, parameters = {}) {
    const query = new URLSearchParams(parameters);
    if (view.name !== null && path !== "v1/experiments") query.set("experiment", view.name);
    const headers = view.key === null ? {} : { Authorization: `Bearer ${view.key}` };
    const response = await fetch(query.size ? `${path}?${query}` : path, {
      headers,
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT),
    });
    if (response.ok) return response.json();
    const body = await response.json().catch(() => null);
    const error = body?.error ?? { code: "unexpected", message: `the answer was ${response.status}` };
    throw new Refused(response.status, error.code, error.message, 1000 * Number(response.headers.get("Retry-After") ?? 0));
  }

  async function poll() {
    clearTimeout(view.timer);
    const turn = ++view.turn;
    let wait = document.hidden ? POLL_HIDDEN : POLL;
    try {
      await refresh(() => {
        if (turn !== view.turn) throw new DOMException("another poll has begun", "AbortError");
      });
      view.failures = 0;
      view.updated = new Date();
      $("trouble").hidden = true;
      $("connection").textContent = `Updated ${clock.format(view.updated)}`;
    } catch (error) {
      if (turn !== view.turn) return;
      if (error instanceof Refused && (error.status === 401 || (error.status === 403 && view.key !== null))) {
        askForKey(view.key === null ? "" : sentence(error.status === 401 ? "this key is not known here" : error.message));
        return;
      }
      view.failures += 1;
      wait = Math.max(wait, error.wait ?? 0, Math.min(SLOWEST, POLL * 2 ** view.failures));
      showTrouble(error, wait);
    }
    view.timer = setTimeout(poll, wait);
  }

  async function refresh(goOn) {
    const now = performance.now();
    if (view.experiments === null || view.failures > 0 || now - view.experimentsAt > 15000) {
      const { experiments } = await get("v1/experiments");
      goOn();
      view.experiments = experiments;
      view.experimentsAt = now;
      if (!experiments.some((one) => one.name === view.name)) choose(experiments[0].name);
      showExperiments();
    }
    const state = await get("v1/state");
    goOn();
    const changed = view.state === null || view.state.position !== state.position || view.state.experiment !== state.experiment;
    view.samples = [...view.samples.filter((one) => now - one.at <= RATE_WINDOW), { at: now, decisions: state.decisions }];
    if (changed) {
      const size = state.actions.length * Math.max(1, state.constraints.length);
      const limit = Math.max(1, Math.min(10, Math.floor(20000 / size)));
      const due = now - view.historyAt > HISTORY_EVERY;
      const [{ decisions }, history, { windows }, lift] = await Promise.all([
        get("v1/decisions", { limit }),
        due ? get("v1/history") : view.history,
        state.windows > 0 ? get("v1/windows", { limit: 5 }) : { windows: [] },
        state.holdout === null ? null : due ? get("v1/lift") : view.lift,
      ]);
      goOn();
      Object.assign(view, { decisions, history, windows, lift, historyAt: due ? now : view.historyAt });
    }
    view.state = state;
    if (changed && state.decisions > 0 && state.constraints.length > 0 && now - view.worthAt > WORTH_EVERY) weighRules(view.name, now);
    if (view.chosen !== null && (view.chosen.pending ?? true)) {
      const chosen = await get(`v1/decisions/${encodeURIComponent(view.chosen.event_id)}`);
      goOn();
      view.chosen = { ...view.chosen, ...chosen };
    }
    if (changed && view.outcomes.status !== null && view.outcomes.rows.length <= 20) await listOutcomes(goOn);
    show(changed);
  }

  /** What each rule costs, which takes the service a moment: the rest of the page does not wait for it. */
  async function weighRules(name, now) {
    view.worthAt = now;
    try {
      const worth = await get("v1/rules");
      if (view.name !== name || view.state === null) return;
      view.worth = worth;
      showRules();
    } catch {
      // Left unsaid; asked for again in a minute.
    }
  }

  function showTrouble(error, wait) {
    const since = view.updated === null ? "" : ` What you see is from ${clock.format(view.updated)}.`;
    const what =
      error instanceof Refused
        ? (view.name === null ? "" : `${view.name}: `) + sentence(error.message)
        : "The service can't be reached.";
    say("trouble-text", what + since);
    $("trouble").hidden = false;
    $("mode").className = "badge";
    say("mode", "– Not known now");
    // Nothing of another experiment under this one's name.
    if (view.state === null) $("main").hidden = true;
    $("connection").textContent = `Not connected; next try at ${clock.format(new Date(Date.now() + wait))}`;
    document.title = `! ${view.name ?? "Tightrope"}`;
  }

  // --- keys ---

  function askForKey(problem) {
    clearTimeout(view.timer);
    forgetKey();
    $("main").hidden = $("trouble").hidden = true;
    $("key-form").hidden = false;
    $("connection").textContent = "Waiting for a key";
    document.title = "Tightrope: key needed";
    say("key-error", problem);
    $("key").focus();
  }

  function forgetKey() {
    storage.removeItem(KEY);
    view.key = view.experiments = view.state = null;
    $("forget").hidden = $("experiment-field").hidden = $("mode").hidden = true;
  }

  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = $("key").value.trim();
    if (!/^[\x21-\x7e]+$/.test(key)) {
      say("key-error", "A key has no spaces and no special characters.");
      return;
    }
    view.key = key;
    storage.setItem(KEY, key);
    $("key").value = "";
    say("key-error", "");
    $("key-form").hidden = true;
    $("connection").textContent = "Connecting…";
    poll().then(() => $("main").hidden || $("main").focus());
  });

  $("forget").addEventListener("click", () => {
    view.turn += 1;
    askForKey("");
  });

  // --- which experiment ---

  function choose(name) {
    Object.assign(view, { name, state: null, history: null, historyAt: -Infinity, worth: null, worthAt: -Infinity, lift: null, decisions: [], windows: [], samples: [], chosen: null });
    view.outcomes = { ...view.outcomes, rows: [], before: null };
    $("follow").checked = true;
    history.replaceState(null, "", `#${new URLSearchParams({ experiment: name })}`);
  }

  function showExperiments() {
    $("forget").hidden = view.key === null;
    $("experiment-field").hidden = false;
    const names = view.experiments.map((one) => one.name);
    if (JSON.stringify(names) !== JSON.stringify([...$("experiment").options].map((one) => one.value))) {
      $("experiment").replaceChildren(...names.map((name) => el("option", { value: name }, name)));
    }
    $("experiment").value = view.name;
  }

  $("experiment").addEventListener("change", () => {
    choose($("experiment").value);
    poll();
  });

  window.addEventListener("hashchange", () => {
    const name = new URLSearchParams(location.hash.slice(1)).get("experiment");
    if (name !== null && name !== view.name && view.experiments?.some((one) => one.name === name)) {
      choose(name);
      poll();
    }
  });

  // --- what stands now ---

  function show(changed) {
    document.dispatchEvent(new CustomEvent("tightrope:state", { detail: { state: view.state, key: view.key, name: view.name } }));
    const first = $("main").hidden;
    $("main").hidden = false;
    $("key-form").hidden = true;
    showSummary();
    if (!changed && !first) return;
    showRules();
    showCaps();
    showWindows();
    showLift();
    showActions();
    showDecisions();
    showOutcomes();
    showCharts();
  }

  function showSummary() {
    const { state } = view;
    const modes = {
      live: ["good", "● Live"],
      shadow: ["warn", state.default === null ? "◐ Shadow" : `◐ Shadow: “${state.default}” is served`],
      paused: ["warn", "❚❚ Paused: no decisions"],
    };
    const [tone, served] = modes[state.mode];
    $("mode").className = `badge ${tone}`;
    $("mode").hidden = false;
    say("mode", served);

    const { told, sign, mood, notices } = words.verdict(state, view.decisions);
    say("title", state.experiment);
    say("verdict", told);
    if ($("notices").textContent !== notices.join("")) fill($("notices"), notices.map((text) => el("li", {}, text)));
    $("notices").hidden = notices.length === 0;
    say("verdict-sign", sign);
    $("verdict-box").className = `verdict ${mood}`;
    document.title = `${sign} ${state.experiment} – Tightrope`;

    const { outcomes } = state;
    say("decisions", whole.format(state.decisions));
    say("rate", pace(rateNow()));
    say("reward", outcomes.mean_reward === null ? "–" : fixed(outcomes.mean_reward, 3));
    say("rewards", `over ${count(outcomes.rewards, "outcome", "outcomes")}`);
    for (const kind of ["pending", "late", "missing", "rejected"]) {
      say(kind, whole.format(outcomes[kind]));
      const title = { pending: "Pending", late: "Late", missing: "Missing", rejected: "Rejected" }[kind];
      document.querySelector(`[data-status="${kind}"]`).textContent = `${title} (${whole.format(outcomes[kind])})`;
    }
  }

  function rateNow() {
    const first = view.samples[0];
    const last = view.samples.at(-1);
    return last.at - first.at < 1000 ? null : (1000 * (last.decisions - first.decisions)) / (last.at - first.at);
  }

  function showRules() {
    const { state } = view;
    const points = series();
    say("rules-lead", rulesLead());
    // What is violated comes first; otherwise as declared.
    const ordered = [...state.constraints.filter(violated), ...state.constraints.filter((one) => !violated(one))];
    fill($("rules"), ordered.map((one) => ruleCard(one, points)));
    $("rules-charts").hidden = state.constraints.length === 0;
    if (state.constraints.length === 0) fill($("rules"), [el("li", {}, "This experiment has no rules.")]);
  }

  function rulesLead() {
    const { state, worth } = view;
    if (state.constraints.length === 0) return "";
    const told = ["What each rule has allowed so far, how much of it was used, and what is left, in the rule's own units. A rule is violated while more was used than allowed."];
    told.push(
      priced()
        ? "What one more unit would earn is the rule's price: an estimate that the policy corrects with every decision."
        : "This policy has queues instead of prices: the pressure on it to keep a rule.",
    );
    if (worth !== null && worth.reward !== null) {
      told.push(`What a rule costs is estimated from the best choices on ${whole.format(worth.rounds)} remembered decisions, with present beliefs.`);
    }
    return told.join(" ");
  }

  function ruleCard(one, points) {
    const counted = view.state.decisions > 0;
    const bad = violated(one);
    const [tone, verdict] = !counted ? ["", "– Nothing counted yet"] : bad ? ["bad", "✕ Violated"] : ["good", "✓ Holds"];
    const part = words.part(one);
    const small = (text) => (text === null ? null : el("p", { class: "small" }, text));
    return el(
      "li",
      { class: tone },
      el(
        "div",
        { class: "top" },
        el("span", { class: `badge ${tone}` }, verdict),
        one.infeasible ? el("span", { class: "badge warn" }, "▲ Can't be met") : null,
        el("span", { class: "small" }, one.unit),
      ),
      el("p", { class: "words" }, wording(one)),
      counted
        ? el("dl", { class: "standing" }, ...words.standing(one).map(([title, text]) => el("div", {}, el("dt", {}, title), el("dd", {}, text))))
        : null,
      counted && part !== null ? bar(part, null, bad) : null,
      counted ? small(words.average(one)) : null,
      small(words.since(one)),
      counted ? spark(points.n, points.left[one.name]) : null,
      counted ? small(one.price === undefined ? words.queueWords(one, view.decisions[0]) : words.priceWords(one)) : null,
      counted ? small(words.worthWords(view.worth, one)) : null,
    );
  }

  /** A small curve of what is left, against the line at 0; the words beside it say the same. */
  function spark(n, values) {
    const [width, height, rim] = [200, 48, 4];
    const low = Math.min(0, ...values);
    const high = Math.max(0, ...values);
    const span = high - low || 1;
    const x = (i) => (n.length < 2 ? 0 : (width * (n[i] - n[0])) / (n.at(-1) - n[0]));
    const y = (value) => rim + ((height - 2 * rim) * (high - value)) / span;
    const svg = (tag, attributes) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
      return made;
    };
    const picture = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    const path = values.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(2)} ${y(value).toFixed(2)}`).join("");
    picture.append(
      svg("rect", { class: "over", x: 0, y: y(0), width, height: height - y(0) }),
      svg("line", { class: "zero", x1: 0, x2: width, y1: y(0), y2: y(0) }),
      svg("path", { class: "path", d: path }),
    );
    return picture;
  }

  function showCaps() {
    const { state } = view;
    $("caps-section").hidden = state.hard_caps.length === 0;
    fill(
      $("caps"),
      state.hard_caps.map((cap) => {
        const share = cap.total > 0 ? cap.used / cap.total : 1;
        const full = words.usedUp(cap);
        const [tone, badge] = full ? ["bad", "✕ Used up"] : share >= 0.9 ? ["warn", "! Nearly used up"] : ["good", "✓ Within"];
        const notes = full ? words.capNotice(cap, view.decisions[0]) : [words.capOutlook(state, cap)].filter((one) => one !== null);
        return el(
          "li",
          { class: full ? "bad" : "good" },
          el(
            "div",
            { class: "top" },
            el("span", { class: `badge ${tone}` }, badge),
            el("span", { class: "figure" }, percent(share)),
          ),
          el("p", { class: "words" }, cap.name),
          bar(share, null, full),
          el("p", { class: "small" }, `${amount(cap.used)} of ${amount(cap.total)} ${cap.unit} used or reserved, ${amount(cap.left)} left`),
          ...notes.map((text) => el("p", { class: "small" }, text)),
        );
      }),
    );
  }

  function showWindows() {
    $("windows-section").hidden = view.windows.length === 0;
    const cards = view.windows.flatMap((one) => one.accounts.map((account) => windowCard(one, account)));
    fill($("windows"), cards);
  }

  function windowCard(one, account) {
    const taken = account.used + account.reserved;
    const share = account.allowed > 0 ? taken / account.allowed : taken > 0 ? 1 : 0;
    const atMost = one.side === "at_most";
    const full = atMost && account.left <= 0 && taken > 0;
    const [tone, badge] = full
      ? ["bad", "✕ Used up"]
      : !atMost && share < 1
        ? ["warn", "– Not reached yet"]
        : atMost && share >= 0.9
          ? ["warn", "! Nearly used up"]
          : ["good", atMost ? "✓ Within" : "✓ Reached"];
    const reserved = account.reserved > 0 ? `, ${amount(account.reserved)} of it reserved` : "";
    const left = atMost ? `, ${amount(account.left)} left` : "";
    const until = account.end > account.start && /^[a-z]+$/.test(one.per) ? `until ${clock.format(new Date(account.end * 1000))}` : `in ${one.per}`;
    const above = one.above > 0 ? [el("p", { class: "small" }, `${whole.format(one.above)} outcomes used more than was reserved for them`)] : [];
    return el(
      "li",
      { class: full ? "bad" : "good" },
      el("div", { class: "top" }, el("span", { class: `badge ${tone}` }, badge), el("span", { class: "figure" }, percent(share))),
      el("p", { class: "words" }, account.key === null ? one.name : `${one.name}: ${account.key}`),
      bar(share, null, full),
      el("p", { class: "small" }, `${amount(taken)} of ${amount(account.allowed)} ${one.unit}${reserved}${left}, ${until}`),
      ...above,
    );
  }

  function showLift() {
    const { lift } = view;
    $("lift-section").hidden = lift === null;
    if (lift === null) return;
    say("lift-lead", words.liftWords(lift));
    fill(
      $("lift").tBodies[0],
      [lift.reward, ...lift.rules].map((one) =>
        el("tr", {}, el("th", { scope: "row" }, one.rule ?? "reward"), ...words.liftCells(one).map((text) => el("td", { class: "number" }, text))),
      ),
    );
  }

  const off = (one) => (one.state === "active" ? null : el("span", { class: "badge warn" }, one.state));

  function showActions() {
    const { state } = view;
    const points = series();
    const from = recent(points.n, Math.max(50, state.decisions / 10)).at(-1) ?? null;
    const before = from === null ? state.decisions : points.n[from];
    const since = from === null || state.decisions === before ? null : state.decisions - before;
    say("lately", since === null ? "Lately" : `Last ${whole.format(since)}`);
    fill(
      document.querySelector("#actions tbody"),
      state.actions.map((one) => {
        const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
        const shade = groups().find((group) => group.names.includes(one.name)).colour;
        swatch.style.background = shade;
        return el(
          "tr",
          {},
          el("th", { scope: "row", title: one.description }, swatch, one.name, off(one), bar(one.share, shade)),
          el("td", { class: "number" }, whole.format(one.decisions)),
          el("td", { class: "number" }, percent(one.share)),
          el("td", { class: "number" }, since === null ? "–" : percent((one.decisions - points.actions[one.name][from]) / since)),
        );
      }),
    );
    const idle = since === null || since < words.many(state) ? [] : state.actions.filter((one) => one.decisions === points.actions[one.name][from]);
    const notes = idle.slice(0, 5).map((one) => `${one.name} got none of the last ${whole.format(since)} decisions. ${words.whyNot(state, one, view.decisions)}`);
    if (idle.length > 5) notes.push(`So did ${idle.length - 5} others.`);
    fill($("idle"), notes.map((text) => el("li", {}, text)));
  }

  /** The actions as curves: the most frequent ones, and the others together. */
  function groups() {
    const { actions } = view.state;
    const single = (one) => ({ label: one.name, names: [one.name], colour: colourOf(actions.indexOf(one)) });
    if (actions.length <= SERIES) return actions.map(single);
    const ranked = [...actions].sort((a, b) => b.decisions - a.decisions);
    const kept = new Set(ranked.slice(0, SERIES - 1));
    const shown = actions.filter((one) => kept.has(one)).map((one, i) => ({ ...single(one), colour: colourOf(i) }));
    const rest = actions.filter((one) => !kept.has(one)).map((one) => one.name);
    return [...shown, { label: `${rest.length} others`, names: rest, colour: colourOf(SERIES - 1) }];
  }

  // --- over time ---

  /** The history, from nothing to this moment. */
  function series() {
    const { state, history } = view;
    const past = history ?? { decisions: [], time: [], rewards: [], reward_sum: [], left: {}, allowed: {}, queues: {}, actions: {} };
    const pressures = past.prices ?? past.queues;
    const fresh = state.decisions > 0;
    const run = (values, now) => [0, ...(values ?? []), ...(fresh ? [now] : [])];
    const { outcomes } = state;
    const last = view.decisions[0]?.time ?? state.time;
    return {
      n: run(past.decisions, state.decisions),
      time: [past.time[0] ?? last, ...past.time, ...(fresh ? [last] : [])],
      rewards: run(past.rewards, outcomes.rewards),
      sums: run(past.reward_sum, (outcomes.mean_reward ?? 0) * outcomes.rewards),
      left: Object.fromEntries(state.constraints.map((one) => [one.name, run(past.left[one.name], one.left)])),
      room: Object.fromEntries(state.constraints.map((one) => [one.name, roomOf(run(past.left[one.name], one.left), run(past.allowed[one.name], one.allowed))])),
      pressures: Object.fromEntries(state.constraints.map((one) => [one.name, run(pressures[one.name], pressure(one))])),
      actions: Object.fromEntries(state.actions.map((one) => [one.name, run(past.actions[one.name], one.decisions)])),
    };
  }

  /** What is left as a percentage of what was allowed; null where that is nothing or not known. */
  const roomOf = (left, allowed) => left.map((value, i) => (Math.abs(allowed[i] ?? 0) > 0 ? (100 * value) / Math.abs(allowed[i]) : null));

  /** For each point the latest earlier one at which `counts` was lower by at least `window`; null where there is none. */
  function recent(counts, window) {
    let j = -1;
    return counts.map((value) => {
      while (j + 1 < counts.length && counts[j + 1] <= value - window) j += 1;
      return j < 0 ? null : j;
    });
  }

  function showCharts() {
    if (view.plotly !== "ready" || $("main").hidden) return;
    const points = series();
    const { state } = view;
    const N = state.decisions;
    const onDecisions = { title: { text: "decisions" }, rangemode: "tozero" };

    const later = (values) => values.filter((value, i) => value !== null && points.n[i] >= N / 20);
    const latest = (one) => points.room[one.name].at(-1) ?? Infinity;
    const near = closest("costs-chart", (one) => -latest(one)).filter((one) => latest(one) < Infinity);
    const top = [...state.constraints].sort((a, b) => latest(a) - latest(b))[0];
    if (top) {
      const some = near.length < state.constraints.length ? ` ${near.length} of ${state.constraints.length} rules are shown, those closest to it.` : "";
      say("costs-note", latest(top) === Infinity ? "Not counted in this journal." : `Closest to its limit: ${top.name}, ${words.left(top)}.${some}`);
      // The first decisions swing widely; what they did can be seen on the cards.
      const all = near.flatMap((one) => later(points.room[one.name]));
      const [low, high] = [Math.max(-100, Math.min(0, ...all)), Math.min(100, Math.max(0, ...all))];
      const span = high - low || 1;
      const range = [Math.min(low - 0.08 * span, -0.14 * span), high + 0.06 * span];
      draw("costs-chart", ruleCurves(near, points.n, points.room), {
        xaxis: onDecisions,
        yaxis: { title: { text: "left, % of allowed" }, range, zeroline: false },
        shapes: [
          { type: "rect", xref: "paper", x0: 0, x1: 1, y0: range[0], y1: 0, fillcolor: ink("--over"), line: { width: 0 }, layer: "below" },
          { type: "line", xref: "paper", x0: 0, x1: 1, y0: 0, y1: 0, line: { color: ink("--bad"), width: 2, dash: "dash" } },
        ],
        annotations: [
          {
            xref: "paper",
            x: 0.01,
            y: range[0],
            xanchor: "left",
            yanchor: "bottom",
            showarrow: false,
            text: "violated below the line",
            font: { color: ink("--bad"), size: 12 },
          },
        ],
      });
      const pressed = closest("queues-chart", pressure);
      const most = [...state.constraints].sort((a, b) => pressure(b) - pressure(a))[0];
      const [heading, axis, highest, none] = priced()
        ? ["Prices", "price", `What one more unit would earn, by rule. Highest: ${most.name}, ${amount(pressure(most))}.`, "No limit makes a difference: more room would earn nothing."]
        : ["Queues", "queue", `Under most pressure: ${most.name}, ${amount(most.queue)}.`, "No rule is under pressure."];
      const few = pressed.length < state.constraints.length ? ` The ${pressed.length} highest of ${state.constraints.length} are shown.` : "";
      say("queues-title", heading);
      say("queues-note", (pressure(most) > 0 ? highest : none) + few);
      draw("queues-chart", ruleCurves(pressed, points.n, points.pressures), {
        xaxis: onDecisions,
        // Of the first decisions no more than there is room for.
        yaxis: { title: { text: axis }, range: [0, 1.08 * (Math.max(0, ...pressed.flatMap((one) => later(points.pressures[one.name]))) || 1)] },
      });
    }

    const window = Math.max(30, Math.round(N / 12));
    const start = recent(points.n, window);
    const kept = points.n.map((_, i) => i).filter((i) => start[i] !== null && points.n[i] > points.n[start[i]]);
    say("shares-note", kept.length ? `Of the last ${whole.format(window)} decisions at each moment.` : `From the first ${window} decisions on.`);
    draw(
      "shares-chart",
      groups().map((group) => ({
        name: group.label,
        x: kept.map((i) => points.n[i]),
        y: kept.map((i) => {
          const chosen = (at) => group.names.reduce((sum, name) => sum + points.actions[name][at], 0);
          return (100 * (chosen(i) - chosen(start[i]))) / (points.n[i] - points.n[start[i]]);
        }),
        stackgroup: "all",
        mode: "lines",
        line: { color: group.colour, width: 1 },
        fillcolor: group.colour,
        hovertemplate: "%{y:.1f} %",
      })),
      { xaxis: { ...onDecisions, rangemode: "normal" }, yaxis: { title: { text: "share, %" }, range: [0, 100] } },
    );

    const R = state.outcomes.rewards;
    const lately = Math.max(30, Math.round(R / 12));
    const from = recent(points.rewards, lately);
    const some = points.n.map((_, i) => i).filter((i) => points.rewards[i] > 0);
    const late = some.filter((i) => from[i] !== null);
    const mean = state.outcomes.mean_reward;
    say("reward-note", mean === null ? "No outcomes yet." : `${fixed(mean, 3)} on average over ${count(R, "outcome", "outcomes")}.`);
    draw(
      "reward-chart",
      [
        { name: `last ${whole.format(lately)}`, at: late, y: (i) => (points.sums[i] - points.sums[from[i]]) / (points.rewards[i] - points.rewards[from[i]]) },
        { name: "since the beginning", at: some, y: (i) => points.sums[i] / points.rewards[i] },
      ].map((one, k) => ({
        name: one.name,
        x: one.at.map((i) => points.n[i]),
        y: one.at.map(one.y),
        mode: "lines",
        line: { color: colourOf(k ? 1 : 0), width: k ? 2.5 : 1.5, dash: k ? "solid" : "dot" },
        hovertemplate: "%{y:.3f}",
      })),
      { xaxis: onDecisions, yaxis: { title: { text: "mean reward" } } },
    );

    const rates = ratesOf(points.time, points.n);
    say("rate-note", rates === null ? "Too few decisions so far." : `${pace(rates.mean)} on average, from the first decision to the last.`);
    draw(
      "rate-chart",
      [
        {
          name: "decisions per second",
          x: rates?.time.map((seconds) => new Date(1000 * seconds)) ?? [],
          y: rates?.rate ?? [],
          mode: "lines",
          line: { color: colourOf(0), width: 2, shape: "hv" },
          fill: "tozeroy",
          fillcolor: ink("--grid"),
          hovertemplate: "%{y:.3~g} per second",
        },
      ],
      { xaxis: { type: "date", nticks: narrow("rate-chart") ? 4 : 7, tickangle: 0 }, yaxis: { title: { text: "per second" }, rangemode: "tozero" }, showlegend: false },
    );
    // Where plotly measures texts: out of sight, and not for screen readers either.
    document.getElementById("js-plotly-tester")?.setAttribute("aria-hidden", "true");
  }

  /** At most as many constraints as can be told apart, the largest by `size`, in the order of their declaration. */
  function closest(id, size) {
    const { constraints } = view.state;
    const most = narrow(id) ? SERIES / 2 : SERIES;
    const kept = new Set([...constraints].sort((a, b) => size(b) - size(a)).slice(0, most));
    return constraints.filter((one) => kept.has(one));
  }

  function ruleCurves(shown, n, values) {
    const { constraints } = view.state;
    return shown.map((one, i) => {
      // The same look in both charts where there are enough of them for all rules.
      const k = constraints.length <= SERIES ? constraints.indexOf(one) : i;
      return {
        name: one.name,
        x: n,
        y: values[one.name],
        mode: "lines",
        line: { color: colourOf(k), width: 2, dash: DASHES[k % DASHES.length] },
        hovertemplate: "%{y:,.4~g}",
      };
    });
  }

  /** Decisions per second in up to 60 equal stretches of time. */
  function ratesOf(time, n) {
    const [begin, end] = [time[0], time.at(-1)];
    if (!(end - begin > 0)) return null;
    const bins = Math.max(1, Math.min(60, Math.floor(end - begin)));
    const width = (end - begin) / bins;
    const edges = Array.from({ length: bins + 1 }, (_, i) => begin + i * width);
    let j = 0;
    const counts = edges.map((edge) => {
      while (j < time.length - 2 && time[j + 1] <= edge) j += 1;
      const step = time[j + 1] - time[j];
      return step > 0 ? n[j] + (n[j + 1] - n[j]) * Math.min(1, (edge - time[j]) / step) : n[j + 1];
    });
    counts[0] = 0;
    const rate = counts.slice(1).map((value, i) => (value - counts[i]) / width);
    return { time: edges, rate: [...rate, rate.at(-1)], mean: n.at(-1) / (end - begin) };
  }

  const narrow = (id) => $(id).clientWidth < 480;

  function draw(id, traces, layout) {
    const axis = { gridcolor: ink("--grid"), linecolor: ink("--edge"), fixedrange: true, automargin: true, zerolinecolor: ink("--edge") };
    const width = $(id).clientWidth;
    // Plotly gives every entry of a legend the width of the longest; the chart grows by the rows that this takes.
    const entry = 60 + 6.5 * Math.max(0, ...traces.map((one) => one.name.length));
    const rows = layout.showlegend === false ? 0 : Math.ceil(traces.length / Math.max(1, Math.floor((width - 66) / entry)));
    $(id).style.height = `${255 + 19 * rows}px`;
    window.Plotly.react(
      $(id),
      traces,
      {
        font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink("--ink") },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        margin: { l: 48, r: 16, t: 14, b: 44 + 19 * rows },
        hovermode: "x unified",
        hoverlabel: { bgcolor: ink("--panel"), bordercolor: ink("--edge"), font: { color: ink("--ink") } },
        legend: { orientation: "h", x: 0, y: 0, yref: "container", yanchor: "bottom", font: { size: 11.5 }, traceorder: "normal" },
        showlegend: true,
        dragmode: false,
        ...layout,
        xaxis: { ...axis, ...layout.xaxis, title: { ...layout.xaxis.title, standoff: 4 } },
        yaxis: { ...axis, ...layout.yaxis },
      },
      { displayModeBar: false, responsive: true, showTips: false },
    );
  }

  function loadPlotly() {
    const script = el("script", { src: PLOTLY });
    script.addEventListener("load", () => {
      view.plotly = "ready";
      if (view.state !== null) showCharts();
    });
    script.addEventListener("error", () => {
      view.plotly = "missing";
      $("no-charts").hidden = false;
      for (const chart of document.querySelectorAll(".chart")) chart.hidden = true;
    });
    document.head.append(script);
  }

  // --- why ---

  function showDecisions() {
    const chosen = $("follow").checked ? view.decisions[0] : view.chosen;
    fill(
      $("list"),
      view.decisions.map((one) =>
        el(
          "li",
          {},
          el(
            "button",
            {
              type: "button",
              "data-key": one.event_id,
              "aria-pressed": String(one.event_id === chosen?.event_id),
              onclick: () => pick(one),
            },
            el("span", {}, one.name),
            el("span", { class: "small" }, moment(one.time)),
            el("span", { class: "small" }, one.event_id),
            one.arm === "control" ? el("span", { class: "small" }, "control group") : null,
            one.repeats === undefined ? null : el("span", { class: "small" }, `repeats decision ${whole.format(one.repeats)}`),
            drawn(one) ? el("span", { class: "small" }, `with ${chance(one.probability)}`) : null,
            one.proposed === undefined ? null : el("span", { class: "small" }, `proposed ${one.proposed}`),
          ),
        ),
      ),
    );
    if (view.decisions.length === 0) fill($("list"), [el("li", { class: "lead" }, "None yet.")]);
    showWhy(chosen ?? null);
  }

  async function pick(decision) {
    $("follow").checked = false;
    view.chosen = decision;
    showDecisions();
    try {
      const found = await get(`v1/decisions/${encodeURIComponent(decision.event_id)}`);
      if (view.chosen === decision) {
        view.chosen = { ...decision, ...found };
        showDecisions();
      }
    } catch {
      // The next poll says what is wrong.
    }
  }

  $("follow").addEventListener("change", () => {
    view.chosen = $("follow").checked ? null : (view.decisions[0] ?? null);
    showDecisions();
  });

  $("find").addEventListener("submit", async (event) => {
    event.preventDefault();
    const wanted = $("event").value.trim();
    if (wanted === "") return;
    say("find-error", "");
    try {
      view.chosen = await get(`v1/decisions/${encodeURIComponent(wanted)}`);
      $("follow").checked = false;
      showDecisions();
      $("why").focus();
    } catch (error) {
      say("find-error", error instanceof Refused ? sentence(error.message) : "The service can't be reached.");
    }
  });

  function showWhy(decision) {
    $("why").hidden = decision === null;
    if (decision === null) return;
    const why = decision.explanation;
    const facts = [fact("Event", decision.event_id), fact("Sequence", String(decision.sequence))];
    if (decision.time !== undefined) facts.push(fact("At", moment(decision.time)));
    if (decision.outcome !== undefined) facts.push(fact("Outcome", outcomeOf(decision)));
    const asked = Object.entries(decision.request?.context ?? {}).map(([name, value]) => fact(name, round(value)));
    for (const name of ["group", "usage"]) {
      const given = decision.request?.[name];
      if (given !== undefined && given !== null) asked.push(fact(name, JSON.stringify(given)));
    }
    const [table, note] = explanation(decision);
    fill($("why"), [
      el("h3", {}, decision.proposed === undefined ? decision.name : `${decision.name} (proposed: ${decision.proposed})`),
      ...words.reasons(view.state, decision).map((text) => el("p", {}, text)),
      el("div", { class: "scroll", role: "region", "aria-label": "What each action was worth", tabindex: "0", "data-key": "worth" }, table),
      el("p", { class: "small lead" }, note),
      why.words === undefined ? null : el("ul", { class: "small prices" }, ...why.words.map((text) => el("li", {}, text))),
      asked.length ? el("p", { class: "facts" }, ...asked) : null,
      el("p", { class: "facts" }, ...facts),
    ].filter((node) => node !== null));
  }

  const fact = (name, value) => el("span", {}, `${name} `, el("b", {}, String(value)));
  const round = (value) => (typeof value === "number" ? plain(value) : value);

  function outcomeOf(decision) {
    const parts = Object.entries(decision.outcome).map(
      ([name, value]) => `${name} ${typeof value === "number" ? plain(value) : JSON.stringify(value)}`,
    );
    if (decision.pending) parts.push(parts.length ? "more is waited for" : "still waited for");
    return parts.length ? parts.join(", ") : "none came in time";
  }

  /** What each action was worth, as a table, and a note on what it leaves out. */
  function explanation(decision) {
    const why = decision.explanation;
    const probability = (row) => decision.probabilities?.[row.action] ?? row.probability;
    const random = drawn(decision) && why.actions.every((row) => typeof probability(row) === "number");
    const weights = Object.keys(why.queue).map((name) => [name, Math.max(...why.actions.map((row) => Math.abs(row.penalties[name])))]);
    const heavy = weights.filter(([, weight]) => weight >= NOTHING).sort((a, b) => b[1] - a[1]);
    const shown = weights.map(([name]) => name).filter((name) => heavy.slice(0, 5).some(([other]) => other === name));
    const rest = heavy.slice(5).map(([name]) => name);
    const ranked = [...why.actions].sort((a, b) => b.value - a.value || b.chosen - a.chosen);
    const rows = ranked.filter((row, i) => i < 12 || row.chosen);
    const number = (title, text) => el("td", { class: "number", role: "cell", "data-title": title }, text);
    const hoped = priced() ? "Reward expected" : "Reward hoped for";
    const others = count(rest.length, "other rule", "other rules");
    const table = el(
      "table",
      { role: "table" },
      el("caption", { class: "unseen" }, "What each action was worth"),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "col" }, "Action"),
          random ? el("th", { scope: "col", class: "number" }, "Probability") : null,
          el("th", { scope: "col", class: "number" }, "Value"),
          el("th", { scope: "col", class: "number" }, hoped),
          ...shown.map((name) => el("th", { scope: "col", class: "number" }, name)),
          rest.length ? el("th", { scope: "col", class: "number" }, others) : null,
        ),
      ),
      el(
        "tbody",
        {},
        ...rows.map((row) =>
          el(
            "tr",
            { class: row.chosen ? "chosen" : null, role: "row" },
            el("th", { scope: "row", role: "rowheader" }, row.chosen ? `→ ${row.action}` : row.action, row.chosen ? el("span", { class: "unseen" }, " (chosen)") : null),
            random ? number("Probability", chance(probability(row))) : null,
            number("Value", fixed(row.value, 3)),
            number(hoped, fixed(row.reward, 3)),
            ...shown.map((name) => number(name, signed(-row.penalties[name]))),
            rest.length ? number(others, signed(-rest.reduce((sum, name) => sum + row.penalties[name], 0))) : null,
          ),
        ),
      ),
    );
    const idle = weights.length - heavy.length;
    const notes = [
      priced()
        ? "Value = the expected reward, plus what the price of each rule adds or takes off. The choice is drawn at random around it, more widely the less is known."
        : "Value = the best plausible reward, plus what each rule under pressure adds or takes off.",
    ];
    if (idle > 0) notes.push(`${count(idle, "rule", "rules")} without effect ${idle === 1 ? "is" : "are"} left out.`);
    if (rows.length < ranked.length) notes.push(`${count(ranked.length - rows.length, "action", "actions")} of lower value ${ranked.length - rows.length === 1 ? "is" : "are"} left out.`);
    return [table, notes.join(" ")];
  }

  // --- outcomes that need a look ---

  for (const button of document.querySelectorAll("[data-status]")) {
    button.addEventListener("click", async () => {
      const { status } = button.dataset;
      view.outcomes = { status: view.outcomes.status === status ? null : status, rows: [], before: null };
      if (view.outcomes.status !== null) await listOutcomes().catch(outcomesFailed);
      showOutcomes();
    });
  }

  $("more").addEventListener("click", async () => {
    const earlier = view.outcomes.rows;
    await listOutcomes(() => {}, { before: view.outcomes.before }).catch(outcomesFailed);
    view.outcomes.rows = [...earlier, ...view.outcomes.rows];
    showOutcomes();
  });

  async function listOutcomes(goOn = () => {}, page = {}) {
    const { status } = view.outcomes;
    let found = { outcomes: [], before: page.before ?? null };
    // Late and rejected ones share a list in the journal, so a page may hold none of the wanted kind.
    do {
      found = await get("v1/outcomes", { status, ...(found.before === null ? {} : { before: found.before }) });
      goOn();
    } while (found.outcomes.length === 0 && found.before !== null);
    if (view.outcomes.status === status) view.outcomes = { status, rows: found.outcomes, before: found.before };
  }

  function outcomesFailed() {
    view.outcomes = { status: null, rows: [], before: null };
  }

  function showOutcomes() {
    const { status, rows, before } = view.outcomes;
    for (const button of document.querySelectorAll("[data-status]")) {
      button.setAttribute("aria-pressed", String(button.dataset.status === status));
    }
    $("outcomes-box").hidden = rows.length === 0;
    $("more").hidden = before === null || rows.length === 0;
    const notes = {
      pending: "Decisions whose outcome is still awaited, oldest first: these will be missing next.",
      late: "Outcomes that came after their decision had expired: counted, not learnt.",
      missing: "Decisions that expired without their whole outcome.",
      rejected: "Outcomes for an unknown event, or that contradict an earlier report.",
    };
    say("outcomes-note", status === null ? "Choose which to list." : rows.length === 0 ? "There are none." : notes[status]);
    if (rows.length === 0) return;
    const columns = { pending: ["time"], late: ["time", "reward", "usage"], missing: ["expired"], rejected: ["time", "reason", "reward", "usage"] }[status];
    const titles = { time: status === "pending" ? "Decided" : "Came", expired: "Expired", reason: "Why", reward: "Reward", usage: "Used" };
    const cell = { unknown: "unknown event", differs: "differs from before" };
    fill(document.querySelector("#outcomes thead"), [
      el("tr", {}, el("th", { scope: "col" }, "Event"), ...columns.map((name) => el("th", { scope: "col" }, titles[name]))),
    ]);
    fill(
      document.querySelector("#outcomes tbody"),
      rows.map((row) =>
        el(
          "tr",
          {},
          el("th", { scope: "row", class: "id" }, row.event_id),
          ...columns.map((name) => {
            const value = row[name];
            if (value === null || value === undefined) return el("td", {}, "–");
            if (name === "time" || name === "expired") return el("td", {}, moment(value));
            if (name === "reason") return el("td", {}, cell[value] ?? value);
            return el("td", { class: "id" }, typeof value === "number" ? plain(value) : JSON.stringify(value));
          }),
        ),
      ),
    );
  }

  // --- the page ---

  $("retry").addEventListener("click", poll);
  window.addEventListener("online", poll);
  document.addEventListener("visibilitychange", () => document.hidden || $("key-form").hidden === false || poll());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.state === null || show(true));

  loadPlotly();
  poll();
})();
