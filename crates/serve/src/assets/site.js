"use strict";
// Adds to pages that are complete without it: buttons that copy, keys in the list, what is ticked.
(() => {
  for (const button of document.querySelectorAll(".copier")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const code = button.parentNode.querySelector("code");
      const isAddress = button.closest(".address") || code.textContent.startsWith("/");
      const text = isAddress ? new URL(code.textContent, location.href).href : code.textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        // Without leave to write the clipboard the text is chosen, for the keys that copy.
        getSelection().selectAllChildren(code);
        button.textContent = "Chosen: copy it";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  // What is ticked is counted, and a button without anything to compare says so.
  const pick = document.querySelector("form.pick");
  if (pick) {
    const button = pick.querySelector(".picked button");
    const boxes = [...pick.querySelectorAll("input[name=run]")];
    const count = () => {
      const ticked = boxes.filter((box) => box.checked).length;
      button.disabled = !ticked;
      button.textContent = ticked ? `Compare ${ticked} ticked` : "Compare those ticked";
    };
    pick.addEventListener("change", count);
    count();
  }

  // Choices of the list hold at once; without scripts there is a button.
  const filters = document.querySelector("form.filters");
  if (filters) {
    for (const choice of filters.querySelectorAll("select")) choice.addEventListener("change", () => filters.requestSubmit());
  }

  // A plan is checked as it is filled in.
  const plan = document.querySelector("form.plan");
  if (plan) {
    const place = document.getElementById("checked");
    let waiting = 0, asked = 0;
    const check = async () => {
      const number = ++asked;
      try {
        const answer = await fetch(plan.dataset.check, { method: "POST", body: new URLSearchParams(new FormData(plan)) });
        const text = await answer.text();
        if (number === asked && answer.ok) place.innerHTML = text;
      } catch { /* the server is gone: the button says so */ }
    };
    plan.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(check, 400); });
  }

  // A measurement's lines come by themselves.
  const job = document.getElementById("job");
  if (job && job.dataset.events) {
    const events = new EventSource(job.dataset.events);
    const show = (event) => {
      const before = job.querySelector(".lines");
      const was = before ? before.scrollTop : 0;
      const atEnd = !before || was + before.clientHeight >= before.scrollHeight - 30;
      job.innerHTML = event.data;
      const lines = job.querySelector(".lines");
      if (lines) lines.scrollTop = atEnd ? lines.scrollHeight : was;
    };
    events.addEventListener("message", show);
    events.addEventListener("end", () => { events.close(); location.reload(); });
  }

  // Keys: / searches, j and k go through the list, x ticks, c compares.
  const rows = [...document.querySelectorAll("table.list tbody tr")];
  let at = -1;
  const go = (step) => {
    if (!rows.length) return;
    at = Math.max(0, Math.min(rows.length - 1, at + step));
    rows[at].querySelector("th a").focus();
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const search = document.getElementById("q");
    if (event.key === "/" && search) { event.preventDefault(); search.focus(); }
    else if (event.key === "j") go(1);
    else if (event.key === "k") go(-1);
    else if (event.key === "x" && rows[at]) rows[at].querySelector("input").click();
    else if (event.key === "c" && pick && !pick.querySelector(".picked button").disabled) pick.requestSubmit();
  });
})();
