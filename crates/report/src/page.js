"use strict";
// Adds to a page that is complete without it: tooltips at once, arrow keys in plots, a remembered unit.
(() => {
  const tip = document.getElementById("tip");
  let current = null;
  // Set while the keys chose the mark: scrolling a plot under a resting pointer must not take it away.
  let keyed = false;

  // The texts move from <title>, which browsers show late, to the tooltip.
  for (const title of document.querySelectorAll(".mark > title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  }

  const hide = () => {
    tip.hidden = true;
    if (current) current.classList.remove("on");
    current = null;
  };
  const show = (mark) => {
    if (mark === current) return;
    hide();
    current = mark;
    mark.classList.add("on");
    tip.replaceChildren(...mark.dataset.tip.split("\n").map((line, index) => {
      const part = document.createElement(index ? "div" : "b");
      part.textContent = line;
      return part;
    }));
    tip.hidden = false;
    const box = mark.getBoundingClientRect();
    const width = document.documentElement.clientWidth;
    const middle = Math.min(box.left + box.width / 2, width);
    const left = Math.max(6, Math.min(middle - tip.offsetWidth / 2, width - tip.offsetWidth - 6));
    const above = box.top - tip.offsetHeight - 10;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(above > 6 ? above : box.bottom + 10) + scrollY}px`;
  };

  const visible = (mark) => mark.getClientRects().length > 0;
  for (const plot of document.querySelectorAll(".plot > svg")) {
    plot.addEventListener("pointermove", (event) => {
      if (keyed && !event.movementX && !event.movementY) return;
      keyed = false;
      const bar = event.target.closest(".stack");
      if (bar) return show(bar);
      // The nearest mark within reach of a finger: where marks cover each other, the one meant.
      let best = null, least = 18;
      for (const mark of plot.querySelectorAll(".mark:not(.stack)")) {
        if (!visible(mark)) continue;
        const box = mark.getBoundingClientRect();
        const away = Math.hypot(box.left + box.width / 2 - event.clientX, box.top + box.height / 2 - event.clientY);
        if (away < least) [best, least] = [mark, away];
      }
      if (best) show(best); else hide();
    });
    plot.addEventListener("pointerleave", () => { if (!keyed) hide(); });
    plot.addEventListener("blur", hide);
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") return hide();
      if (!step) return;
      event.preventDefault();
      const marks = [...plot.querySelectorAll(".mark")].filter(visible);
      if (!marks.length) return;
      const at = marks.indexOf(current);
      keyed = true;
      show(marks[at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length]);
    });
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // The unit stands in the address, so that a link shows what its sender saw.
  const units = [...document.querySelectorAll("input[name=unit]")];
  const wanted = new URLSearchParams(location.search).get("unit");
  for (const input of units) {
    if (input.value === wanted) input.checked = true;
    input.addEventListener("change", () => {
      hide();
      const address = new URL(location.href);
      address.searchParams.set("unit", input.value);
      try { history.replaceState(null, "", address); } catch { /* not allowed here: the choice holds until the page closes */ }
    });
  }
})();
