"use strict";
document.documentElement.classList.add("js"); // before the rows are read: those that are not chosen need no layout
document.addEventListener("DOMContentLoaded", () => {
  const all = (selector, place = document) => [...place.querySelectorAll(selector)];
  const [words, session, maker, beside] = ["words", "session", "maker", "beside"].map((id) => document.getElementById(id));
  const links = new Map(all("nav li").map((item) => [item.dataset.row, item]));
  const rows = all("main > section").map((place) => ({
    place,
    link: links.get(place.id),
    about: place.dataset.maker ? place.querySelector(".about").textContent.toLowerCase() : "",
    files: all(".file", place).map((file) => ({ file, path: file.dataset.path.toLowerCase() })),
  }));
  const sides = new WeakMap();
  let chosen;

  function offer(select, name) {
    const found = new Set(rows.map((row) => row.place.dataset[name]).filter(Boolean));
    select.append(...[...found].map((value) => new Option(value, value)));
    select.hidden = found.size < 2;
  }

  function choose(row) {
    if (row === chosen) return;
    for (const each of rows) {
      each.place.classList.toggle("chosen", each === row);
      each.link.firstChild.setAttribute("aria-current", each === row);
    }
    chosen = row;
    arrange();
    row.link.scrollIntoView({ block: "nearest" });
  }

  // The row of the address, and the line or the file in it.
  function follow() {
    const id = location.hash.slice(1);
    const target = document.getElementById(id);
    const row = rows.find(({ place }) => target && place.contains(target));
    if (row?.place.classList.contains("off")) {
      words.value = session.value = maker.value = "";
      filter();
    }
    if (row || !chosen) choose(row || rows[0]);
    if (row) document.getElementById(id).scrollIntoView({ block: "start" }); // side by side, another place has the id
  }

  function go(row) {
    if (!row) return;
    choose(row);
    row.place.scrollIntoView({ block: "start" });
    history.replaceState(null, "", `#${row.place.id}`);
  }

  function move(by) {
    const shown = rows.filter((row) => row === chosen || !row.place.classList.contains("off"));
    go(shown[shown.indexOf(chosen) + by]);
  }

  function filter() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const { session: of, maker: by } = row.place.dataset;
      const rest = wanted.filter((word) => !row.about.includes(word));
      const fits = row.files.map(({ path }) => rest.every((word) => path.includes(word)));
      const isOff = (rest.length > 0 && !fits.includes(true)) || (session.value && of !== session.value) || (maker.value && by !== maker.value);
      for (const place of [row.place, row.link]) place.classList.toggle("off", Boolean(isOff));
      row.files.forEach(({ file }, at) => file.classList.toggle("off", !fits[at]));
    }
    if (chosen?.place.classList.contains("off")) go(rows.find((row) => !row.place.classList.contains("off")));
  }

  // -- side by side

  function cell(line, at, name) {
    const made = line ? line.cells[at].cloneNode(true) : document.createElement("td");
    made.classList.add(line ? name : "gap");
    return made;
  }

  function pair(body) {
    const made = document.createElement("tbody");
    let [gone, come] = [[], []];
    const flush = () => {
      for (let at = 0; at < Math.max(gone.length, come.length); at += 1) {
        const line = made.insertRow();
        line.append(cell(gone[at], 0, "d"), cell(gone[at], 3, "d"), cell(come[at], 1, "a"), cell(come[at], 2, "a"), cell(come[at], 3, "a"));
      }
      [gone, come] = [[], []];
    };
    for (const line of body.rows) {
      if (line.className === "d") gone.push(line);
      else if (line.className === "a") come.push(line);
      else {
        flush();
        const both = made.insertRow();
        both.className = line.className;
        both.append(...[0, 3, 1, 2, 3].map((at) => line.cells[at].cloneNode(true)));
      }
    }
    flush();
    return made;
  }

  function arrange() {
    const isBeside = beside.getAttribute("aria-pressed") === "true" && beside.offsetParent !== null;
    for (const table of chosen ? all("table", chosen.place) : []) {
      if (!sides.has(table)) sides.set(table, { unified: [...table.tBodies] });
      const side = sides.get(table);
      if (isBeside) side.beside ??= side.unified.map(pair);
      if (table.classList.contains("beside") !== isBeside) table.replaceChildren(...(isBeside ? side.beside : side.unified));
      table.classList.toggle("beside", isBeside);
    }
  }

  function toggle() {
    beside.setAttribute("aria-pressed", beside.getAttribute("aria-pressed") !== "true");
    arrange();
  }

  // -- copy

  async function copy(button) {
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const place = document.body.appendChild(document.createElement("textarea"));
      place.value = text;
      place.select();
      document.execCommand("copy");
      place.remove();
    }
    button.textContent = `copied: ${text}`;
  }

  const keys = { j: () => move(1), k: () => move(-1), s: toggle, "/": () => words.focus() };
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input, select");
    if (event.key === "Escape" && isTyping) {
      words.value = "";
      filter();
      event.target.blur();
    } else if (!isTyping && !event.ctrlKey && !event.metaKey && !event.altKey && Object.hasOwn(keys, event.key)) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (button) copy(button);
  });
  words.addEventListener("input", filter);
  session.addEventListener("change", filter);
  maker.addEventListener("change", filter);
  beside.addEventListener("click", toggle);
  window.addEventListener("hashchange", follow);
  window.addEventListener("resize", arrange);
  offer(session, "session");
  offer(maker, "maker");
  if (rows.length) follow();
});
