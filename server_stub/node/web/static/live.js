// Brings a page up to date while something on it runs. Without this file the page reloads itself.
"use strict";
(() => {
  const EVERY_MS = 2000;
  let waits = EVERY_MS;

  async function look() {
    const live = document.getElementById("live");
    if (live.dataset.over === "1") return;
    if (!document.hidden) {
      try {
        const reply = await fetch(location.href, { credentials: "same-origin", redirect: "manual" });
        if (reply.type === "opaqueredirect" || reply.status === 404) return location.reload();
        if (reply.ok) {
          show(live, new DOMParser().parseFromString(await reply.text(), "text/html"));
          waits = EVERY_MS;
        } else waits = Math.min(60000, 2 * waits);
      } catch {
        waits = Math.min(60000, 2 * waits); // the node is away; it may come back
      }
    }
    setTimeout(look, waits);
  }

  function stops(live) {
    return [...live.querySelectorAll("a, button, summary, [tabindex]")];
  }

  function show(live, page) {
    const fresh = page.getElementById("live");
    if (!fresh) return location.reload();
    for (const one of live.querySelectorAll("details[open][id]")) {
      const again = fresh.querySelector("#" + one.id);
      if (again) again.open = true;
    }
    // Whoever walks through the page by keyboard stays where they are.
    const place = stops(live).indexOf(document.activeElement);
    live.replaceChildren(...fresh.childNodes);
    if (place >= 0) stops(live)[place]?.focus({ preventScroll: true });
    live.dataset.over = fresh.dataset.over;
    document.title = page.title;
  }

  setTimeout(look, EVERY_MS);
})();
