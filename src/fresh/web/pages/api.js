// Requests to the server; errors carry its messages.
export class ServerError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

export async function request(address, options = {}) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server does not respond. Check that it is running, and try again.");
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new ServerError(problem.detail ?? `The server responded with status ${response.status}.`, response.status);
}

export function post(model, what, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const address = `/v1/models/${encodeURIComponent(model)}/${what}`;
  return request(address, { method: "POST", headers, body: JSON.stringify(body), signal });
}

// Local storage, which browsers may refuse.
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
    // the value is lost with the page
  }
}

export const byId = (id) => document.getElementById(id);

export const percent = (share) => `${(100 * share).toFixed(1)} %`;

// One character for one: control characters as their pictures; direction overrides and lone surrogates as �.
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
    // The clipboard API needs https or localhost.
    const field = element("textarea", "unseen");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}
