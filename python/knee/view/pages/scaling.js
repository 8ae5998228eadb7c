"use strict";
// The axes of a panel as uPlot takes them: numbers, names or powers of ten, and titles that fit.
const scaling = (() => {
  const { shortened, themed, FONT } = drawing;

  const STEPS = [1, 2, 5];

  /** Places of the ticks of a logarithmic axis: 1, 2, 5, or powers of ten where those are many. */
  function logarithmic(low, high, most) {
    const decades = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) decades.push(power);
    const ticks = (steps) => decades.flatMap((power) => steps.map((step) => Number(`${step}e${power}`)))
      .filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    const found = [STEPS, [1, 3], [1]].map(ticks).find((each) => each.length <= most) ?? ticks([1]);
    const every = Math.ceil(found.length / most);
    return found.length >= 2 ? found.filter((_, i) => i % every === 0) : [low, high].map((value) => Number(value.toPrecision(2)));
  }

  function horizontal(axis, width, where, last) {
    const names = axis.names;
    const room = names && width / names.length;
    const longest = names ? Math.max(...names.map((name) => name.length)) * 6.5 : 0;
    const turned = names && longest > room - 6;
    const cut = (name) => (name.length > 18 ? `${name.slice(0, 17)}…` : name);
    const every = names ? Math.ceil(15 / room) : 1;
    const given = names ? names.map((_, i) => i).filter((i) => i % every === 0) : axis.ticks;
    const splits = given ? (u) => given.filter((tick) => tick >= u.scales.x.min && tick <= u.scales.x.max)
      : axis.log ? (u) => logarithmic(u.scales.x.min, u.scales.x.max, width / 52) : undefined;
    return {
      scale: "x", stroke: themed("ink", where), font: `11px ${FONT}`, labelFont: `12px ${FONT}`, labelGap: 0,
      label: last ? axis.title : undefined, labelSize: last && axis.title ? 20 : 0, gap: 4, space: 54,
      size: last ? (turned ? 16 + Math.min(longest, 18 * 6.5) * 0.72 : 24) : 10,
      grid: { stroke: themed("grid", where), width: 1, show: !names }, ticks: { stroke: themed("muted", where), size: 4, width: 1 },
      border: { show: true, stroke: themed("muted", where), width: 1 },
      values: (_, ticks) => ticks.map((tick) => (!last ? "" : names ? cut(names[Math.round(tick)] ?? "") : shortened(tick, 6))),
      ...(splits && { splits, filter: (_, ticks) => ticks }), ...(turned && { rotate: 45 }),
    };
  }

  /** A title on one line, cut where it is longer than the axis; its unit is kept. */
  function fitted(title, unit, length) {
    const most = Math.max(Math.floor(length / 6.4), 4);
    const line = title.replaceAll("\n", " ");
    if (line.length <= most) return line;
    const end = unit && [` (${unit})`, `, ${unit}`].find((each) => line.endsWith(each) && each.length < most - 4);
    return `${line.slice(0, most - 1 - (end ? end.length : 0))}…${end || ""}`;
  }

  function vertical(panel, where, narrow, wide, height) {
    const rows = panel.rows;
    return {
      scale: "y", stroke: themed("ink", where), font: `11px ${FONT}`, labelFont: `12px ${FONT}`, gap: 4,
      label: fitted(panel.label, panel.unit, height), labelSize: panel.label ? 20 : 0, labelGap: 0, size: wide ?? (narrow ? 42 : 50), space: 26,
      grid: { stroke: themed("grid", where), width: 1, show: !rows }, ticks: { show: false },
      border: { show: true, stroke: themed("muted", where), width: 1 },
      values: (_, ticks) => ticks.map((tick) => (rows ? (rows[Math.round(tick)] ?? "").slice(0, 18) : shortened(tick, 6))),
      ...(rows && { splits: () => rows.map((_, i) => i), filter: (_, ticks) => ticks }),
      ...(panel.log && { splits: (u) => logarithmic(u.scales.y.min, u.scales.y.max, height / 26), filter: (_, ticks) => ticks }),
    };
  }

  return { horizontal, vertical };
})();
