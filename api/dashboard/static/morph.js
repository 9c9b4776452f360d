// Makes one element like another in place, so that focus, selection and drawings survive.
// Elements with data-key are the same element wherever they move among their siblings.

function morph(live, fresh) {
  if (live.nodeType === Node.TEXT_NODE || live.nodeType === Node.COMMENT_NODE) {
    if (live.data !== fresh.data) {
      live.data = fresh.data;
    }
    return;
  }
  morphAttributes(live, fresh);
  if (!live.hasAttribute("data-spark")) {
    // a sparkline's inside is drawn here, not sent
    morphChildren(live, fresh);
  }
}

function morphAttributes(live, fresh) {
  for (const { name } of [...live.attributes]) {
    if (!fresh.hasAttribute(name)) {
      live.removeAttribute(name);
    }
  }
  for (const { name, value } of fresh.attributes) {
    if (live.getAttribute(name) !== value) {
      live.setAttribute(name, value);
    }
  }
}

export function morphChildren(live, fresh) {
  const keyed = new Map([...live.children].map((child) => [child.dataset?.key, child]));
  const wantedNodes = [...fresh.childNodes]; // a copy: those that are new here move over
  wantedNodes.forEach((wanted, index) => {
    const place = live.childNodes[index] ?? null;
    const match = wanted.dataset?.key ? keyed.get(wanted.dataset.key) : place;
    if (!match || !alike(match, wanted)) {
      live.insertBefore(wanted, place);
      return;
    }
    if (match !== place) {
      live.insertBefore(match, place);
    }
    morph(match, wanted);
  });
  while (live.childNodes.length > wantedNodes.length) {
    live.lastChild.remove();
  }
}

function alike(live, fresh) {
  return live.nodeName === fresh.nodeName && live.dataset?.key === fresh.dataset?.key;
}
