// What the dashboard says, as text: numbers, rules, caps, actions and decisions in words. It touches neither the page nor the service.
"use strict";

globalThis.tightropeWords = (() => {
  // A cost of exactly 0 is a sum of floats.
  const ROUNDING = 1e-9;
  // Below this a difference of rewards is none.
  const NOTHING = 0.0005;

  // --- numbers ---

  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  function fixed(value, digits) {
    const text = new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
    return /^-0(\.0*)?$/.test(text) ? text.slice(1) : text.replace("-", "−");
  }

  const plain = (value) => new Intl.NumberFormat("en", { maximumFractionDigits: 3 }).format(value).replace("-", "−").replace(/^−0$/, "0");
  const percent = (share) => `${fixed(100 * share, 1)} %`;
  const signed = (value) => (value >= NOTHING ? "+" : "") + fixed(value, 3);
  const count = (n, one, many) => `${whole.format(n)} ${n === 1 ? one : many}`;

  /** As many digits as its size is worth: 2,502 and 47.3 and 0.0125. */
  function amount(value) {
    const size = Math.abs(value);
    if (size <= ROUNDING) return "0";
    const options = size < 1 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: size < 10 ? 2 : size < 1000 ? 1 : 0 };
    return new Intl.NumberFormat("en", options).format(value).replace("-", "−");
  }

  function moment(seconds) {
    const when = new Date(1000 * seconds);
    return (when.toDateString() === new Date().toDateString() ? clock : day).format(when);
  }

  function pace(perSecond) {
    if (perSecond === null) return "measuring…";
    if (perSecond === 0) return "none in the last 10 s";
    if (perSecond < 1) return `${fixed(60 * perSecond, 0)} per minute`;
    return `${fixed(perSecond, perSecond < 100 ? 1 : 0)} per second`;
  }

  function sentence(text) {
    return text[0].toUpperCase() + text.slice(1) + (/[.!?:]$/.test(text) ? "" : ".");
  }

  function listed(names, most = 4) {
    const shown = names.length > most ? [...names.slice(0, most - 1), `${names.length - most + 1} others`] : names;
    return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
  }

  // --- rules ---

  const violated = (constraint) => constraint.cumulative_cost > ROUNDING;
  const atMost = (constraint) => constraint.side === "at_most";

  /** A rule in words; where both of its limits are counted, which one this is. */
  function wording(state, constraint) {
    const twice = state.constraints.filter((other) => other.rule === constraint.rule).length > 1;
    return twice ? `${constraint.rule} (${atMost(constraint) ? "upper" : "lower"} limit)` : constraint.rule;
  }

  /** Used, allowed and left, or what these are called where something is required: pairs of a title and a number. */
  function standing(one) {
    const titles = atMost(one) ? ["Used", "Allowed", "Left"] : ["Had", "Required", "To spare"];
    const short = atMost(one) ? "Over by" : "Short by";
    const last = violated(one) ? [short, amount(-one.left)] : [titles[2], amount(one.left)];
    if (one.allowed === null) return [last];
    return [[titles[0], amount(one.used)], [titles[1], amount(one.allowed)], last];
  }

  const left = (one) =>
    Math.abs(one.left) <= ROUNDING * Math.max(1, Math.abs(one.allowed ?? 1))
      ? "exactly at its limit"
      : violated(one)
        ? `${amount(-one.left)} ${one.unit} ${atMost(one) ? "over" : "short"}`
        : `${amount(one.left)} ${one.unit} ${atMost(one) ? "left" : "to spare"}`;

  /** The mean so far beside the limit: "0.378 nurse hours per decision so far, at most 0.4". */
  function average(one) {
    const late = one.seen === "after" ? ", as far as outcomes have come" : "";
    const limit = `${atMost(one) ? "at most" : "at least"} `;
    if (one.allowed === null) return `Since the beginning, in ${one.unit}${late}.`;
    if (one.decisions === 0) return `No decision has counted yet${late}.`;
    const mean = one.used / one.decisions;
    const of = count(one.decisions, "decision", "decisions");
    // Where the limit has moved, the mean is over earlier limits too: beside the present one it would seem to break or keep it.
    const moved = one.earlier && one.earlier.decisions > 0 ? one.allowed / one.decisions : null;
    const under = moved === null ? "" : " under its limits so far";
    if (one.unit === "decisions") {
      const share = moved === null ? `${plain(100 * one.limit)} %` : percent(moved);
      return `${percent(mean)} of ${of} that count, ${limit}${share}${under}${late}.`;
    }
    const each = moved === null ? plain(one.limit) : amount(moved);
    return `${amount(mean)} ${one.unit} per decision over ${of}, ${limit}${each}${under}${late}.`;
  }

  /** What it has used since its limit moved: "Since 18 Nov, 14:02: 12 of 14.4 nurse hours under this limit." */
  function since(one) {
    const { earlier } = one;
    if (earlier === null || earlier.used === null || one.used === null) return null;
    const used = `${amount(one.used - earlier.used)} of ${amount(one.allowed - earlier.allowed)} ${one.unit}`;
    return `This limit has held since ${moment(earlier.until)}: ${used} since then, ${amount(earlier.used)} before.`;
  }

  /** The part of what is allowed that is used, or of what is required that there is; null where that makes no sense. */
  const part = (one) => (one.allowed > 0 && one.used >= 0 ? one.used / one.allowed : null);

  const priced = (state) => state.constraints.some((one) => one.price !== undefined);
  const pressure = (one) => one.price ?? one.queue;

  function priceWords(one) {
    if (one.infeasible) return "On what was seen so far, no choice of actions keeps this rule along with the others: its price is as high as it may get.";
    if (!(one.price > 0)) return "This limit makes no difference now: more room would earn nothing.";
    return sentence(`${one.one_more} would earn about ${amount(one.price)}`);
  }

  /** How far a queue sets the values of actions apart in a decision, and how far their rewards are; null where that is not known. */
  function weighed(one, decision) {
    const rows = decision?.explanation?.actions ?? [];
    if (rows.length < 2 || rows[0].penalties?.[one.name] === undefined) return null;
    const span = (values) => Math.max(...values) - Math.min(...values);
    return { rule: span(rows.map((row) => row.penalties[one.name])), reward: span(rows.map((row) => row.reward)) };
  }

  /** Whether a queue outweighs reward by far, so that hardly anything else counts. */
  function outweighs(one, decision) {
    const found = one.price === undefined && one.queue > 0 ? weighed(one, decision) : null;
    return found !== null && found.rule > 3 * Math.max(found.reward, NOTHING);
  }

  /** What a queue does. */
  function queueWords(one, newest) {
    if (!(one.queue > 0)) return "Queue 0: the policy feels no pressure from this rule.";
    const told = `Queue ${amount(one.queue)}, the pressure that this rule has built up: `;
    const found = weighed(one, newest);
    if (found === null) return `${told}the higher it is, the more it decides.`;
    if (found.rule < NOTHING) return `${told}in the newest decision it made no difference between actions.`;
    const effect = `in the newest decision it moves actions apart by up to ${amount(found.rule)}, while their hoped-for rewards differ by ${amount(found.reward)}`;
    const alone = outweighs(one, newest) ? ": this rule decides, and reward hardly counts" : "";
    const { epsilon } = newest.explanation;
    const tightened =
      one.left > 0 && epsilon > 0
        ? ` The rule itself has room, but the queue also counts ε = ${amount(epsilon)}: the policy tightens every rule by that much in each decision.`
        : "";
    return `${told}${effect}${alone}.${tightened}`;
  }

  /** What a rule costs, by `v1/rules`; null where nothing is known. */
  function worthWords(worth, one) {
    const found = worth?.rules.find((other) => other.name === one.name);
    if (found === undefined) return null;
    const loss = found.without - worth.reward;
    if (loss < NOTHING * Math.max(1, Math.abs(worth.reward))) return one.price > 0 ? "In the long run it costs hardly any reward." : null;
    const share = worth.reward > 0 ? ` (${percent(loss / found.without)})` : "";
    const [without, along] = [amount(found.without), amount(worth.reward)];
    const both = without === along ? "" : `: the best choices earn about ${without} without it and ${along} with it`;
    return `In the long run it costs about ${amount(loss)} per decision${share}${both}.`;
  }

  // --- hard caps ---

  const usedUp = (cap) => cap.left <= ROUNDING || cap.withheld !== null;

  /** What a used-up cap blocks, since when, and what became of the reward; an array of sentences. */
  function capNotice(cap, newest) {
    const { withheld } = cap;
    const what = cap.name === cap.rule ? `“${cap.rule}”` : cap.name.replaceAll("_", " ");
    const amounts = `${amount(cap.used)} of ${amount(cap.total)} ${cap.unit}${cap.left > ROUNDING ? `, and the rest is too little` : ""}`;
    const told = [`The hard cap on ${what} is used up (${amounts})${withheld ? ` since ${moment(withheld.since)}, decision ${whole.format(withheld.sequence)}` : ""}.`];
    if (withheld === null) return told;
    const blocked = Object.entries(withheld.actions).sort((a, b) => b[1] - a[1]);
    const often = (n) => (n === withheld.decisions ? `all ${whole.format(n)}` : `${whole.format(n)} of the ${whole.format(withheld.decisions)}`);
    const kept = blocked.map(([name, n], i) => `${name} in ${often(n)}${i === 0 ? " decisions since then" : ""}`);
    told.push(`It blocked ${listed(kept)}.`);
    const now = (newest?.explanation?.actions ?? []).map((row) => row.action);
    if (now.length === 1) told.push(`In the newest decision only ${now[0]} was left.`);
    const { mean_reward_before: before, mean_reward_since: since } = withheld;
    if (before !== null && since !== null) told.push(`The mean reward was ${fixed(before, 3)} before that, and has been ${fixed(since, 3)} since.`);
    return told;
  }

  /** How long the rest of a cap lasts. */
  function capOutlook(state, cap) {
    if (usedUp(cap) || !(cap.used > 0) || state.decisions < 20) return null;
    return `At the average pace so far it will last for about ${count(Math.floor((cap.left * state.decisions) / cap.used), "more decision", "more decisions")}.`;
  }

  // --- actions ---

  /** So many decisions without an action are worth a word. */
  const many = (state) => Math.max(100, 20 * state.actions.length);

  /** Why an action was not chosen: it was not on offer, or what the newest decisions say of it. */
  function whyNot(state, action, decisions) {
    const cap = state.hard_caps.find((one) => one.withheld?.actions[action.name] > 0);
    if (cap !== undefined) return `The hard cap on ${cap.name.replaceAll("_", " ")} blocks it.`;
    if (action.offered === 0) return "No request offered it.";
    const seen = decisions.flatMap((one) => {
      const rows = one.explanation?.actions ?? [];
      const own = rows.find((row) => row.action === action.name);
      return own === undefined ? [] : [{ own, best: rows.reduce((a, b) => (b.value > a.value ? b : a)) }];
    });
    if (seen.length === 0) return "The newest decisions did not offer it.";
    const mean = (of) => seen.reduce((sum, one) => sum + of(one), 0) / seen.length;
    const word = priced(state) ? "expected" : "hoped";
    const [own, best] = [mean((one) => one.own.reward), mean((one) => one.best.reward)];
    const told = `In the newest ${count(seen.length, "decision", "decisions")} it was ${word} to earn ${amount(own)}, and the action with the highest value ${amount(best)}`;
    // How much more the rules take off it than off that one, in all and for each rule.
    const setback = (name) => mean((one) => (one.own.penalties[name] ?? 0) - (one.best.penalties[name] ?? 0));
    const names = Object.keys(seen[0].own.penalties);
    const behind = mean((one) => one.own.reward - one.own.value - (one.best.reward - one.best.value));
    if (behind <= NOTHING || names.length === 0) return `${told}.`;
    const heaviest = names.reduce((a, b) => (setback(b) > setback(a) ? b : a));
    return `${told}; the rules put it ${amount(behind)} behind that one, mostly because of “${ruleNamed(state, heaviest)}”.`;
  }

  /** Actions that got nothing at all in many decisions: an array of sentences. */
  function neverChosen(state, decisions) {
    if (state.decisions < many(state)) return [];
    const none = state.actions.filter((one) => one.decisions === 0);
    const told = none.slice(0, 3).map((one) => {
      const offered = one.offered > 0 ? `, on offer in ${whole.format(one.offered)}` : "";
      return `${one.name} was never chosen in ${whole.format(state.decisions)} decisions${offered}. ${whyNot(state, one, decisions)}`;
    });
    if (none.length > 3) told.push(`${listed(none.slice(3).map((one) => one.name))} ${none.length === 4 ? "was" : "were"} never chosen either.`);
    return told;
  }

  function ruleNamed(state, name) {
    const found = state.constraints.find((one) => one.name === name);
    return found === undefined ? name : wording(state, found);
  }

  /** Numbers of a context that were outside the range of their field. */
  function outsideWords(one) {
    const which = `${count(one.values, "value", "values")} outside ${plain(one.low)} to ${plain(one.high)}`;
    return `${one.field}: ${which} ${one.values === 1 ? "was" : "were"} ${one.outside === "clip" ? "clipped" : "taken"}.`;
  }

  /** Values of a context that were missing or not declared. */
  function replacedWords(one) {
    const what = one.why === "missing" ? "missing" : "not declared";
    return `${one.field}: ${count(one.values, "value", "values")} ${one.values === 1 ? "was" : "were"} ${what} and replaced by ${one.taken_as}.`;
  }

  // --- the control group ---

  /** What is compared, over how many decisions or users, since when. */
  function liftWords(lift) {
    const { users, decisions } = lift;
    const drawn = lift.by === null ? `${percent(lift.share)} of the decisions, drawn at random, get` : `${percent(lift.share)} of all by ${lift.by}, drawn at random, get`;
    const n = users ?? decisions;
    const [one, many] = users === null ? ["decision", "decisions"] : [lift.by, `different ${lift.by}`];
    const since = lift.sequence > 0 ? `, since decision ${whole.format(lift.sequence)}` : "";
    const per = users === null ? "per decision" : `the sum for each ${lift.by} so far`;
    const told = [`${drawn} the baseline (${lift.baseline}): ${count(n.policy, one, many)} under the policy, ${whole.format(n.control)} in the control group${since}.`];
    told.push(`Means are ${per}. The interval holds whenever you look.`);
    if (lift.displaced > 0) told.push(`In ${count(lift.displaced, "decision", "decisions")} no action of the baseline was on offer.`);
    if (lift.unmeasured > 0) told.push(`${count(lift.unmeasured, "decision", "decisions")} of later users are not measured.`);
    return told.join(" ");
  }

  /** Both means, their difference and its interval. */
  function liftCells(one) {
    const shown = (value) => (value === null ? "–" : amount(value));
    const interval = one.low === null ? "too few yet" : `${amount(one.low)} to ${amount(one.high)}`;
    return [shown(one.policy), shown(one.control), shown(one.lift), interval];
  }

  // --- the verdict ---

  /** One sentence on the whole, its sign and mood, and what else should be known. */
  function verdict(state, decisions) {
    const broken = state.constraints.filter(violated);
    const full = state.hard_caps.filter(usedUp);
    const n = state.constraints.length;
    const notices = full.map((cap) => capNotice(cap, decisions[0]).join(" "));
    let told, sign, mood;
    if (state.decisions === 0) [told, sign, mood] = ["No decisions yet. They will show up here as soon as somebody asks for one.", "–", ""];
    else if (broken.length > 0) {
      const which = listed(broken.map((one) => `${wording(state, one)} (${left(one)})`));
      const few = n === 1 ? "The rule is" : `${broken.length} of ${n} rules ${broken.length === 1 ? "is" : "are"}`;
      [told, sign, mood] = [`${few} violated: ${which}.`, "✕", "bad"];
    } else {
      const hold = n === 0 ? "No rules are declared" : n === 1 ? "The rule holds" : `All ${n} rules hold`;
      if (full.length > 0) {
        const which = listed(full.map((cap) => (cap.name === cap.rule ? `“${cap.rule}”` : cap.name.replaceAll("_", " "))));
        const caps = full.length === 1 ? "A hard cap is" : `${full.length} hard caps are`;
        [told, sign, mood] = [`${caps} used up: ${which}. ${hold} on average.`, "!", "warn"];
      } else [told, sign, mood] = n === 0 ? [`${hold}.`, "–", ""] : [`${hold}.`, "✓", "good"];
    }
    const hopeless = state.constraints.filter((one) => one.infeasible);
    if (hopeless.length > 0) {
      notices.push(`On what was seen so far, this can't be met along with the other rules: ${hopeless.map((one) => wording(state, one)).join("; ")}.`);
      if (mood === "good") [sign, mood] = ["!", "warn"];
    }
    const heavy = state.constraints.filter((one) => outweighs(one, decisions[0]));
    if (heavy.length > 0) {
      notices.push(`Reward hardly counts in the choices now: the pressure of ${listed(heavy.map((one) => one.name))} is far greater.`);
      if (mood === "good") [sign, mood] = ["!", "warn"];
    }
    const never = neverChosen(state, decisions);
    notices.push(...never);
    notices.push(...state.outside.map(outsideWords), ...state.replaced.map(replacedWords));
    for (const one of state.concerns) {
      if (one.kind === "rules that can't be met" || (one.kind === "action never tried" && never.length > 0)) continue;
      notices.push(one.message);
    }
    return { told, sign, mood, notices };
  }

  // --- decisions ---

  /** Whether chance had a part in it. */
  const drawn = (decision) => typeof decision.probability === "number" && decision.probability < 1;
  const chance = (probability) => (probability > 0 && probability < 0.001 ? "less than 0.1 %" : percent(probability));

  /** The comparison behind a decision, in sentences. */
  function reasons(state, decision) {
    const rows = decision.explanation.actions;
    const chosen = rows.find((row) => row.chosen);
    const best = rows.reduce((a, b) => (b.reward > a.reward + ROUNDING ? b : a));
    const burden = (row) => row.reward - row.value;
    const told = [];
    if (decision.proposed !== undefined) {
      told.push(`Shadow mode: ${decision.name} was served; the policy would have chosen ${decision.proposed}. What follows is about its choice.`);
    }
    if (decision.repeats !== undefined) {
      return [...told, `The user keeps ${decision.name} from decision ${whole.format(decision.repeats)}. The table shows what the policy thinks of it now.`];
    }
    if (decision.arm === "control") {
      return [...told, `This decision is in the control group, where the baseline took ${decision.name}. The table shows what the policy thinks of it.`];
    }
    if (rows.length === 1) return [...told, `${chosen.action} was the only action on offer.`];
    if (rows.length < state.actions.length) {
      told.push(`${rows.length} of ${state.actions.length} actions were on offer; the request or a hard cap left out the others.`);
    }
    const ties = rows.filter((row) => Math.abs(row.value - chosen.value) <= 1e-12).length - 1;
    const also = ties > 0 ? ` (with ${count(ties, "other", "others")}; the first of them is taken)` : "";
    const effect = burden(chosen);
    const rules =
      Math.abs(effect) < NOTHING ? "the rules don't change that" : effect > 0 ? `the rules take ${fixed(effect, 3)} off` : `the rules add ${fixed(-effect, 3)}`;
    const top = rows.reduce((a, b) => (b.value > a.value + ROUNDING ? b : a));
    if (drawn(decision)) {
      told.push(
        `${chosen.action} was drawn, with a probability of ${chance(decision.probability)}: its expected reward is ${fixed(chosen.reward, 3)}, and ${rules}.` +
          (top === chosen ? "" : ` ${top.action} has the highest value, ${fixed(top.value, 3)}; an action is tried as often as it might be the best one.`),
      );
    } else {
      told.push(
        `${chosen.action} has the highest value, ${fixed(chosen.value, 3)}${also}: it may earn up to ${fixed(chosen.reward, 3)}, and ${rules}.`,
      );
    }
    if (drawn(decision) && burden(best) <= burden(chosen) + NOTHING) return told;
    if (best.reward > chosen.reward + NOTHING) {
      const [name, most] = Object.entries(best.penalties).reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
      const blame = most > NOTHING ? `, mostly because of “${ruleNamed(state, name)}” (${fixed(most, 3)})` : "";
      const taken = burden(best) > NOTHING ? `the rules take ${fixed(burden(best), 3)} off it${blame}` : `the rules favour ${chosen.action} more`;
      const would = drawn(decision) ? "would most likely have been" : "would have been";
      told.push(`Without rules it ${would} ${best.action}, with ${fixed(best.reward, 3)}; ${taken}.`);
    } else {
      told.push("Without rules the choice would have been the same: no other action on offer promises more.");
    }
    return told;
  }

  return {
    ...{ ROUNDING, NOTHING, whole, clock, fixed, plain, percent, signed, count, amount, moment, pace, sentence, listed },
    ...{ violated, wording, standing, left, average, since, part, priced, pressure, priceWords, queueWords, worthWords },
    ...{ liftWords, liftCells, usedUp, capNotice, capOutlook, many, whyNot, verdict, drawn, chance, reasons },
  };
})();
