// The form that changes an action or a limit: it asks first what would change, and then for a confirmation.
"use strict";

(() => {
  const TIMEOUT = 10000;
  const $ = (id) => document.getElementById(id);
  let at = { state: null, key: null, name: null };

  /** What can be done: whether it is for actions in some states, for limits, or for something new; and its request. */
  const KINDS = {
    pause: { of: ["active"], ask: (name) => ({ actions: { [name]: { state: "paused" } } }) },
    resume: { of: ["paused"], ask: (name) => ({ actions: { [name]: { state: "active" } } }) },
    retire: { of: ["active", "paused"], ask: (name) => ({ actions: { [name]: { state: "retired" } } }) },
    rename: { of: ["active", "paused", "retired"], value: "New name", ask: (name, value) => ({ actions: { [name]: { name: value } } }) },
    add: { of: ["active", "paused", "retired"], value: "Its name", ask: (name, value) => ({ add: { [value]: name === "" ? {} : { like: name } } }) },
    limit: { of: null, value: "New limit", ask: (name, value) => ({ rules: { [name]: { [sideOf(name)]: Number(value) } } }) },
  };

  const sideOf = (name) => at.state.constraints.find((one) => one.name === name).side;

  function choices(kind) {
    const { of } = KINDS[kind];
    if (of === null) return at.state.constraints.map((one) => one.name);
    const names = at.state.actions.filter((one) => of.includes(one.state)).map((one) => one.name);
    return kind === "add" ? ["", ...names] : names;
  }

  /** Fill the fields, and keep what is chosen as long as it is there. */
  function show() {
    const kind = $("change-kind").value;
    const which = $("change-which");
    const names = choices(kind);
    const chosen = which.value;
    if (names.join("\n") !== [...which.options].map((one) => one.value).join("\n")) {
      which.replaceChildren(...names.map((name) => new Option(name === "" ? "nothing known" : name, name)));
      if (names.includes(chosen)) which.value = chosen;
    }
    $("change-which-label").textContent = kind === "add" ? "Like" : kind === "limit" ? "Rule" : "Action";
    $("change-value-field").hidden = KINDS[kind].value === undefined;
    $("change-value-label").textContent = KINDS[kind].value ?? "";
    $("change-value").required = KINDS[kind].value !== undefined;
    $("change-value").type = kind === "limit" ? "number" : "text";
    for (const button of $("change").querySelectorAll("button")) button.disabled = names.length === 0;
  }

  async function send(body) {
    const headers = { "Content-Type": "application/json" };
    if (at.key !== null) headers.Authorization = `Bearer ${at.key}`;
    const query = at.name === null ? "" : `?${new URLSearchParams({ experiment: at.name })}`;
    const signal = AbortSignal.timeout(TIMEOUT);
    const response = await fetch(`v1/changes${query}`, { method: "POST", headers, body: JSON.stringify(body), signal });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error.message);
    if (!answer.possible) throw new Error(answer.why);
    return answer;
  }

  const say = (text) => ($("change-answer").textContent = text);

  async function ask(really) {
    const kind = KINDS[$("change-kind").value];
    const body = kind.ask($("change-which").value, $("change-value").value.trim());
    try {
      const would = (await send({ ...body, check: true })).changes.join("; ");
      if (!really) return say(`It is possible: ${would}.`);
      if (!window.confirm(`Change this now?\n\n${would}\n\nIt goes into the journal, with the id of your key.`)) return say("Nothing has changed.");
      const done = await send(body);
      $("change-value").value = "";
      say(`Done, entry ${done.position} of the journal: ${would}.`);
    } catch (error) {
      say(`Not done: ${error.message}`);
    }
  }

  document.addEventListener("tightrope:state", (event) => {
    at = event.detail;
    show();
  });
  $("change-kind").addEventListener("change", show);
  $("change-check").addEventListener("click", () => {
    if ($("change").reportValidity()) ask(false);
  });
  $("change").addEventListener("submit", (event) => {
    event.preventDefault();
    ask(true);
  });
})();
