// What the console does in the browser besides htmx. No page needs it to work, except for what
// refreshes by itself.
"use strict";

(() => {
  const root = document.documentElement;
  const THEMES = ["", "light", "dark"];
  const NAMES = { "": "Theme: system", light: "Theme: light", dark: "Theme: dark" };

  const stored = () => {
    try {
      const kept = localStorage.getItem("pyrmq-theme") || "";
      return THEMES.includes(kept) ? kept : "";
    } catch {
      return "";
    }
  };

  const apply = (theme) => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    const button = document.querySelector("[data-theme-switch]");
    if (button) button.textContent = NAMES[theme];
  };

  const token = () => document.querySelector("meta[name=csrf-token]");

  const asksByItself = (one) => (one.getAttribute("hx-trigger") || "").startsWith("every");

  apply(stored());

  document.addEventListener("click", (event) => {
    const theme = event.target.closest("[data-theme-switch]");
    if (theme) {
      const next = THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length];
      try {
        localStorage.setItem("pyrmq-theme", next);
      } catch {
        // It lasts until the next page.
      }
      apply(next);
    }
    const menu = event.target.closest("[data-menu]");
    if (menu) {
      const open = document.getElementById("rooms").classList.toggle("open");
      menu.setAttribute("aria-expanded", String(open));
    }
    const all = event.target.closest("[data-check-all]");
    if (all) {
      const boxes = all.closest("form, table").querySelectorAll("tbody input[type=checkbox]");
      boxes.forEach((box) => { box.checked = all.checked; });
    }
  });

  // Tokens of forms are those of the session. A new session gives the page new ones.
  document.addEventListener("htmx:configRequest", (event) => {
    event.detail.headers["X-CSRF-Token"] = token().content;
    if (asksByItself(event.detail.elt)) event.detail.headers["X-By-Itself"] = "1";
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    const answer = event.detail.xhr;
    const renewed = answer && answer.getResponseHeader("X-CSRF-Token");
    if (renewed) {
      token().content = renewed;
      document.querySelectorAll("input[name=_csrf]").forEach((one) => { one.value = renewed; });
    }
    if (answer && answer.status) document.getElementById("away").hidden = true;
  });
  document.addEventListener("htmx:sendError", () => {
    document.getElementById("away").hidden = false;
  });
  document.addEventListener("htmx:timeout", () => {
    document.getElementById("away").hidden = false;
  });

  // A tab that nobody sees asks for nothing; when it is seen it asks at once. A part in which a text
  // is selected waits.
  const isSelected = (part) => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  };
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (!asksByItself(event.target)) return;
    if (document.hidden || isSelected(event.target)) event.preventDefault();
  });

  // A part that refreshes keeps how far its tables are scrolled, what is folded, and the focus.
  const tables = (part) => [...part.querySelectorAll(".scroll")];
  const folds = (part) => [...part.querySelectorAll("details[data-name]")];
  const keyOf = (one) => one.id || one.getAttribute("href") || one.getAttribute("aria-label")
    || (one.matches("summary") && one.parentElement.dataset.name);
  let scrolled = [];
  let folded = new Map();
  let focused = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    const active = document.activeElement;
    scrolled = tables(part).map((one) => [one.scrollLeft, one.scrollTop]);
    folded = new Map(folds(part).map((one) => [one.dataset.name, one.open]));
    focused = part !== active && part.contains(active) ? keyOf(active) : null;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    const part = event.detail.target;
    if (!part.hasAttribute("data-live")) return;
    folds(part).forEach((one) => {
      if (folded.has(one.dataset.name)) one.open = folded.get(one.dataset.name);
    });
    tables(part).forEach((one, at) => {
      if (scrolled[at]) one.scrollTo(...scrolled[at]);
    });
    if (focused) {
      [...part.querySelectorAll("a, button, summary, [tabindex]")]
        .find((one) => keyOf(one) === focused)?.focus({ preventScroll: true });
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    document.querySelectorAll("[data-live]").forEach((one) => htmx.trigger(one, "seen"));
  });

  document.addEventListener("DOMContentLoaded", () => apply(stored()));
})();
