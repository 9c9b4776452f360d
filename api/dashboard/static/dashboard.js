// Asks for the panel each second and changes what changed.  When the server does not answer, the
// old numbers stay, visibly old.

import { morphChildren } from "./morph.js";
import { draw, remember } from "./sparklines.js";

const SECOND = 1000;
const PATIENCE = 5 * SECOND;
const FAULTS = { 401: "signed out", 503: "the database does not answer" };

const panel = document.getElementById("panel");
const lamp = document.getElementById("lamp");
const age = document.getElementById("age");
let answeredAt = Date.now();

async function fetchPanel() {
  const answer = await fetch(panel.dataset.source, { signal: AbortSignal.timeout(PATIENCE) });
  if (answer.status === 401) {
    window.location.assign(panel.dataset.door);
  }
  if (!answer.ok) {
    throw new Error(FAULTS[answer.status] ?? `the server answered ${answer.status}`);
  }
  return answer.text();
}

function show(html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  morphChildren(panel, fresh.content);
  drawSparklines();
}

function drawSparklines() {
  remember(panel.querySelectorAll("[data-series]"));
  draw(panel.querySelectorAll("[data-spark]"));
}

// The lamp is read aloud when it changes, so what changes each second stands beside it.
function setLamp(state, words, beside) {
  document.body.dataset.state = state;
  if (lamp.textContent !== words) {
    lamp.textContent = words;
  }
  age.textContent = beside;
}

function setLive() {
  answeredAt = Date.now();
  setLamp("live", "live", document.getElementById("counted-at").textContent);
}

function reason(error) {
  return error instanceof TypeError || error.name === "TimeoutError"
    ? "the server does not answer"
    : error.message;
}

function setStale(error) {
  const since = Math.round((Date.now() - answeredAt) / SECOND);
  setLamp("stale", `stale: ${reason(error)}`, `these numbers are ${since} s old`);
}

async function poll() {
  try {
    show(await fetchPanel());
    setLive();
  } catch (error) {
    setStale(error);
  }
  setTimeout(poll, SECOND); // after the answer, so that a slow server is not asked twice
}

setLive();
drawSparklines();
setTimeout(poll, SECOND);
