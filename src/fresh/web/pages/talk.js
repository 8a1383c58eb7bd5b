// Talks to the server this page came from; what goes wrong is told in the server's words.
export class Refused extends Error {
  constructor(told, status = 0) {
    super(told);
    this.status = status;
  }
}

export async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer. See whether it is still running, and ask again.");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Refused(told.detail ?? `The server answered with ${answer.status}.`, answer.status);
}

export function post(model, what, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const address = `/v1/models/${encodeURIComponent(model)}/${what}`;
  return ask(address, { method: "POST", headers, body: JSON.stringify(body), signal });
}

// What this browser remembers for this server; where it remembers nothing, there is nothing.
export function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // it lasts as long as the page, then
  }
}

export const byId = (id) => document.getElementById(id);

export const percent = (share) => `${(100 * share).toFixed(1)} %`;

// One sign for one: controls as their pictures; what turns the reading direction round, or is half a character, as �.
export function visible(text) {
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, (sign) => String.fromCharCode(0x2400 + sign.charCodeAt(0)))
    .replace(/\u007f/g, "\u2421")
    .replace(/[\u0080-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd")
    .toWellFormed();
}

export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure address there is no clipboard to ask for.
    const field = element("textarea", "unseen");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}
