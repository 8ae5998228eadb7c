"use strict";
(() => {
  const CELL = 15, NAMES = 62;

  const rgb = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

  function colour(map, value) {
    if (value === null) return "#fff";
    const [low, high, v] = [map.low, map.high, value].map((x) => (map.log ? Math.log(Math.max(x, 1e-12)) : x));
    const at = Math.min(Math.max((v - low) / (high - low), 0), 1) * (map.colours.length - 1);
    const left = Math.min(Math.floor(at), map.colours.length - 2);
    const [a, b] = [rgb(map.colours[left]), rgb(map.colours[left + 1])];
    return `rgb(${a.map((x, i) => Math.round(x + (b[i] - x) * (at - left))).join(",")})`;
  }

  const number = (x, digits = 3) => (x === null ? "none" : String(Number(x.toPrecision(digits))));
  const percent = (x) => (x === null ? "none" : `${number(100 * x)} %`);

  function draw(root, data, state) {
    const cells = data.cells[state.queue];
    const shown = data.names.map((_, i) => i).filter((i) => state.families.has(data.families[i])
      && (state.wanted.length === 0 || state.wanted.some((w) => data.names[i].startsWith(w))));
    const maps = root.querySelector(".matrix-maps");
    if (shown.length === 0) {
      maps.innerHTML = '<p class="none">No algorithm passes the filter.</p>';
      return;
    }
    // Few algorithms do not get huge cells, and their names do not get huge letters.
    const least = 14;
    const size = Math.max(shown.length, least) * CELL + NAMES;
    const bounds = shown.flatMap((i, at) => (at && data.families[i] !== data.families[shown[at - 1]] ? [at] : []));
    maps.innerHTML = data.maps.map((map) => {
      const rows = shown.map((i, y) => shown.map((j, x) => `<rect x="${NAMES + x * CELL}" y="${NAMES + y * CELL}"`
        + ` width="${CELL - 0.5}" height="${CELL - 0.5}" fill="${colour(map, cells[map.column][i][j])}"`
        + ` data-i="${i}" data-j="${j}"/>`).join("")).join("");
      const names = shown.map((i, at) => {
        const middle = NAMES + (at + 0.5) * CELL + 4;
        return `<text x="${NAMES - 4}" y="${middle}" text-anchor="end" data-row="${i}">${data.names[i]}</text>`
          + `<text transform="translate(${middle} ${NAMES - 4}) rotate(-90)" data-column="${i}">${data.names[i]}</text>`;
      }).join("");
      const end = NAMES + shown.length * CELL;
      const lines = bounds.map((at) => NAMES + at * CELL - 0.25)
        .map((p) => `<path d="M${NAMES} ${p}H${end}M${p} ${NAMES}V${end}" stroke="#1f2933"/>`).join("");
      const ends = [map.low, map.high].map((x) => `${number(x * map.factor)}${map.unit && ` ${map.unit}`}`);
      return `<figure><h3>${map.title} <small>${map.hint}</small></h3><div class="matrix-scale">${ends[0]}`
        + `<i style="background:linear-gradient(90deg,${map.colours.join(",")})"></i>${ends[1]}</div>`
        + `<svg viewBox="0 0 ${size} ${shown.length * CELL + NAMES}" role="img" aria-label="${map.title}">`
        + `${names}${rows}${lines}</svg></figure>`;
    }).join("");
  }

  function say(root, data, state, i, j) {
    const of = (figure) => data.cells[state.queue][figure][i][j];
    const pair = (figure) => [`first_${figure}`, `second_${figure}`].map((name) => number(of(name))).join(" and ");
    root.querySelector(".matrix-said").innerHTML = `<b>${data.names[i]}</b> first, then <b>${data.names[j]}</b>: `
      + `${pair("goodput_mbps")} Mbit/s (${percent(of("share"))} of the throughput for ${data.names[i]}), Jain's index `
      + `${number(of("jain"))}; mean RTT ${pair("rtt_mean_ms")} ms (${number(of("rtt_inflation"))} times the base); `
      + `${percent(of("loss"))} and ${percent(of("second_loss"))} lost; link ${percent(of("utilization"))} in use.`;
    for (const on of root.querySelectorAll(".on")) on.classList.remove("on");
    const here = `rect[data-i="${i}"][data-j="${j}"], text[data-row="${i}"], text[data-column="${j}"]`;
    for (const on of root.querySelectorAll(here)) on.classList.add("on");
  }

  function filter(root, data, state) {
    const box = root.querySelector(".matrix-filter");
    const families = [...new Set(data.families)];
    const queues = Object.keys(data.cells);
    const options = queues.map((queue) => `<option>${queue}</option>`).join("");
    box.innerHTML = (queues.length > 1 ? `<label>Queue <select>${options}</select></label>` : "")
      + families.map((f) => `<label><input type="checkbox" checked value="${f}">${f}</label>`).join("")
      + '<label>Only <input type="text" placeholder="such as cubic bbr" aria-label="algorithms to show"></label>';
    box.addEventListener("input", () => {
      state.queue = box.querySelector("select")?.value ?? queues[0];
      state.families = new Set([...box.querySelectorAll("input:checked")].map((input) => input.value));
      state.wanted = box.querySelector('input[type="text"]').value.toLowerCase().split(/[\s,]+/).filter(Boolean);
      draw(root, data, state);
    });
  }

  for (const root of document.querySelectorAll(".matrix:not([data-ready])")) {
    root.dataset.ready = "";
    const data = JSON.parse(root.querySelector("script").textContent);
    const state = { queue: Object.keys(data.cells)[0], families: new Set(data.families), wanted: [] };
    filter(root, data, state);
    draw(root, data, state);
    for (const kind of ["pointerover", "click"]) {
      root.addEventListener(kind, (event) => {
        const cell = event.target.closest?.("rect[data-i]");
        if (cell) say(root, data, state, Number(cell.dataset.i), Number(cell.dataset.j));
      });
    }
  }
})();
