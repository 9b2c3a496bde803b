/* The status page: asks /status.json every few seconds and shows it.  What a
 * client could have chosen (names) only ever becomes text.
 */
"use strict";

const EVERY_MS = 2000;
const ROWS_MAX = 200;
const $ = (id) => document.getElementById(id);

/* --- numbers --- */

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let n = bytes, u = 0;
  while (n >= 1024 && u < units.length - 1) {
    n /= 1024;
    u++;
  }
  const digits = u === 0 ? 0 : n < 10 ? 2 : n < 100 ? 1 : 0;
  return n.toFixed(digits) + "\u00a0" + units[u];
}

function count(n) {
  if (n >= 1e9)
    return (n / 1e9).toFixed(2) + "\u202fG";
  if (n >= 1e6)
    return (n / 1e6).toFixed(2) + "\u202fM";
  if (n >= 1e5)
    return (n / 1e3).toFixed(0) + "\u202fk";
  if (n >= 1e4)
    return (n / 1e3).toFixed(1) + "\u202fk";
  return n >= 10 || n === 0 || Number.isInteger(n) ? n.toFixed(0)
    : n.toFixed(1);
}

function whole(n) {
  return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function latency(s) {
  if (!s)
    return "–";
  if (s < 1e-6)
    return (s * 1e9).toFixed(0) + "\u00a0ns";
  if (s < 1e-3)
    return (s * 1e6).toFixed(s < 1e-5 ? 1 : 0) + "\u00a0µs";
  if (s < 1)
    return (s * 1e3).toFixed(s < 1e-2 ? 2 : s < 1e-1 ? 1 : 0) + "\u00a0ms";
  return s.toFixed(2) + "\u00a0s";
}

function age(s) {
  s = Math.max(0, Math.floor(s));
  if (s < 60)
    return s + "\u00a0s";
  if (s < 3600)
    return Math.floor(s / 60) + "\u00a0min";
  if (s < 86400)
    return Math.floor(s / 3600) + "\u00a0h " +
      Math.floor(s / 60) % 60 + "\u00a0min";
  return Math.floor(s / 86400) + "\u00a0d " +
    Math.floor(s / 3600) % 24 + "\u00a0h";
}

/* --- elements --- */

function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className)
    e.className = className;
  if (text !== undefined)
    e.textContent = text;
  return e;
}

function svg(tag, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes))
    e.setAttribute(key, value);
  if (text !== undefined)
    e.textContent = text;
  return e;
}

/* Text for people, the number for machines. */
function show(id, text, value) {
  const e = $(id);
  e.textContent = text;
  if (value !== undefined)
    e.dataset.value = value;
}

/* --- charts --- */

/* The least power of two, or 1, 2 or 5 times a power of ten, from N on. */
function roundUp(n, binary) {
  if (binary)
    return 2 ** Math.ceil(Math.log2(n));
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].find((f) => n <= f * power * 1.0000001) * power;
}

/* The last minutes that are shown: as many as there are, in steps. */
function windowOf(history) {
  const { interval, size, samples } = history;
  const last = samples.length - 1;
  const there = last > 0 ? samples[last][0] - samples[0][0] : 0;
  return [60, 120, 300].find((s) => there <= s) ||
    interval * (size - 1);
}

function ago(seconds) {
  return seconds <= 0 ? "now" : seconds % 60 ? `${seconds} s ago`
    : `${seconds / 60} min ago`;
}

class Chart {
  /* SERIES: [{ name, field }]; FORMAT makes text of a value; LEAST is the
   * lowest top of the scale.
   */
  constructor(id, series, format, least, binary) {
    Object.assign(this, { series, format, least, binary });
    this.figure = $(id);
    this.readout = this.figure.querySelector(".readout");
    this.svg = svg("svg", { preserveAspectRatio: "none", role: "img",
                            "aria-label": "Rates of the last ten minutes" });
    this.figure.append(this.svg);
    this.at = null;
    this.svg.addEventListener("pointermove", (e) => this.point(e));
    this.svg.addEventListener("pointerleave", () => {
      this.at = null;
      this.draw();
    });
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    this.at = (event.clientX - box.left) / box.width;
    this.draw();
  }

  update(history) {
    this.history = history;
    this.draw();
  }

  /* The values of a field, with the seconds before the last sample. */
  values(field) {
    const { fields, samples } = this.history;
    const i = fields.indexOf(field);
    const last = samples.length ? samples[samples.length - 1][0] : 0;
    return samples.map((s) => ({ before: last - s[0], value: s[i],
                                 time: s[0] }));
  }

  draw() {
    if (!this.history)
      return;
    const width = Math.max(200, this.svg.clientWidth), height = 170;
    const span = windowOf(this.history);
    const bottom = height - 20, top = 18;
    const lines = this.series.map((s) => this.values(s.field));
    const highest = Math.max(this.least,
                             ...lines.flat().map((v) => v.value));
    const max = roundUp(highest, this.binary);
    const x = (v) => width * (1 - v.before / span);
    const y = (n) => bottom - (bottom - top) * n / max;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren();
    for (const f of [0, 0.5, 1]) {
      this.svg.append(svg("line", { class: "grid", x1: 0, x2: width,
                                    y1: y(max * f), y2: y(max * f) }));
      if (f > 0)
        this.svg.append(svg("text", { x: 0, y: y(max * f) - 4 },
                            this.format(max * f)));
    }
    const nice = Math.round(span / 60) * 60;
    [["start", nice], ["middle", nice / 2], ["end", 0]].forEach(
      ([anchor, seconds], i) => this.svg.append(
        svg("text", { x: width * i / 2, y: height - 4,
                      "text-anchor": anchor }, ago(seconds))));
    this.series.forEach((s, i) => this.line(s, lines[i], x, y, bottom));
    this.tell(lines, x, y, width, span, top, bottom);
  }

  line(series, values, x, y, bottom) {
    if (values.length === 0)
      return;
    const points = values.map((v) => x(v).toFixed(1) + "," +
                              y(v.value).toFixed(1));
    const path = "M" + points.join("L");
    const ends = [x(values[0]).toFixed(1),
                  x(values[values.length - 1]).toFixed(1)];
    this.svg.append(
      svg("path", { class: series.name + " area",
                    d: `${path}L${ends[1]},${bottom}L${ends[0]},${bottom}Z` }),
      svg("path", { class: series.name + " line", d: path }));
  }

  /* The values under the pointer, else the last ones. */
  tell(lines, x, y, width, span, top, bottom) {
    const n = lines[0].length;
    if (n === 0)
      return;
    let i = n - 1;
    if (this.at !== null) {
      const before = (1 - this.at) * span;
      for (let k = 0; k < n; k++)
        if (Math.abs(lines[0][k].before - before) <
            Math.abs(lines[0][i].before - before))
          i = k;
      const at = x(lines[0][i]);
      this.svg.append(svg("line", { class: "cursor", x1: at, x2: at, y1: top,
                                    y2: bottom }));
    }
    this.readout.replaceChildren();
    this.series.forEach((s, k) => {
      const v = lines[k][i];
      if (this.at !== null)
        this.svg.append(svg("circle", { class: s.name, cx: x(v),
                                        cy: y(v.value), r: 3.5 }));
      this.readout.append(k ? "\u2003" : "", s.name + " ",
                          element("b", s.name, this.format(v.value)));
    });
    if (this.at !== null)
      this.readout.append("\u2003" +
                          new Date(lines[0][i].time * 1000)
                            .toLocaleTimeString());
  }
}

const charts = [
  new Chart("chart-ops", [{ name: "read", field: "reads" },
                          { name: "write", field: "writes" }],
            (n) => count(n) + "/s", 10, false),
  new Chart("chart-bytes", [{ name: "read", field: "read_bytes" },
                            { name: "write", field: "written_bytes" }],
            (n) => size(n) + "/s", 1024, true),
  new Chart("chart-latency", [{ name: "read", field: "read_p99" },
                              { name: "write", field: "write_p99" }],
            latency, 1e-4, false),
];

/* --- parts of the page --- */

function showHead(s) {
  const info = s.pool && s.pool.info;
  const label = info ? info.label || "Pool" : s.plugin;
  show("label", label);
  document.title = label + " – btrnbd";
  show("identity", info ? info.uuid : "served by the plugin " + s.plugin);
  show("uptime", "up " + age(s.time - s.server.started));
  show("program", "btrnbdd " + s.version + ", process " + s.pid);
  const health = $("health");
  const readOnly = info && info.read_only;
  const slow = s.pool && s.pool_age > 10;
  const repaired = (s.pool && s.pool.stats && s.pool.stats.blocks_repaired) ||
    0;
  const [state, text, why] =
    readOnly ? ["bad", "Read-only",
                "The pool is read-only: " + info.read_only_reason]
    : slow ? ["warn", "Disks are slow",
              `The pool has not answered for ${age(s.pool_age)}.`]
    : repaired ? ["warn", "Repaired",
                  `${whole(repaired)} damaged blocks were repaired from a ` +
                  "good copy since the start: a disk may be failing."]
    : ["good", "Healthy", ""];
  health.dataset.state = state;
  health.textContent = text;
  const notice = $("notice");
  notice.hidden = !why;
  notice.textContent = why;
}

function showNow(s) {
  const { fields, samples } = s.history;
  const last = samples[samples.length - 1];
  const field = (name) => last ? last[fields.indexOf(name)] : 0;
  const stats = s.pool && s.pool.stats;
  show("now-reads", count(field("reads")));
  show("now-writes", count(field("writes")));
  show("now-read-bytes", size(field("read_bytes")));
  show("now-write-bytes", size(field("written_bytes")));
  show("now-p99", latency(Math.max(field("read_p99"), field("write_p99"))));
  show("now-p99-read", latency(field("read_p99")));
  show("now-p99-write", latency(field("write_p99")));
  show("connections", whole(s.server.connections), s.server.connections);
  show("connections-total", whole(s.server.connections_total),
       s.server.connections_total);
  $("cache-card").hidden = !stats;
  if (!stats)
    return;
  const all = stats.data_hits + stats.data_misses;
  show("hits", all ? (100 * stats.data_hits / all).toFixed(1) + "\u202f%"
       : "–", all ? stats.data_hits / all : 0);
  show("cache", size(stats.data_cache_bytes), stats.data_cache_bytes);
  show("dirty", size(stats.data_dirty_bytes), stats.data_dirty_bytes);
}

function copies(profile) {
  return { DUP: 2, RAID1: 2, RAID10: 2, RAID1C3: 3,
           RAID1C4: 4 }[profile.toUpperCase()] || 1;
}

function showSpace(df) {
  $("space").hidden = !df;
  if (!df)
    return;
  const used = df.data.used + df.metadata.used + df.system.used;
  show("space-used", size(used), used);
  show("space-size", size(df.total_bytes), df.total_bytes);
  show("space-free", size(df.free_estimate), df.free_estimate);
  /* On the disks: every copy counts. */
  const disk = (kind, of) => df[kind][of] * copies(df[kind].profile);
  const kinds = ["data", "metadata", "system"];
  const parts = kinds.map((k) => [k, "used by " + k, disk(k, "used")]);
  parts.push(["reserved", "set aside",
              kinds.reduce((n, k) => n + disk(k, "total") - disk(k, "used"),
                           0)]);
  parts.push(["unallocated", "not allocated", df.unallocated]);
  const all = parts.reduce((n, p) => n + p[2], 0) || 1;
  $("space-bar").replaceChildren();
  $("space-legend").replaceChildren();
  for (const [name, text, bytes] of parts) {
    if (bytes > 0) {
      const i = element("i", name);
      i.style.width = 100 * bytes / all + "%";
      $("space-bar").append(i);
    }
    const li = element("li");
    li.append(element("i", "swatch " + name), text + " ",
              element("b", "", size(bytes)));
    $("space-legend").append(li);
  }
}

function cell(text, value, className) {
  const td = element("td", "n" + (className ? " " + className : ""), text);
  if (value === 0 && !className)
    td.classList.add("zero");
  if (value !== undefined)
    td.dataset.value = value;
  return td;
}

function fillTable(id, rows, nothing) {
  const table = $(id), body = table.tBodies[0];
  body.replaceChildren(...rows.slice(0, ROWS_MAX));
  if (rows.length === 0) {
    const tr = element("tr"), td = element("td", "none", nothing);
    td.colSpan = table.tHead.rows[0].cells.length;
    tr.append(td);
    body.append(tr);
  }
  const more = $(id + "-more");
  more.hidden = rows.length <= ROWS_MAX;
  more.textContent = `and ${rows.length - ROWS_MAX} more`;
}

/* What the pool lists, and what has counters, by name. */
function allExports(s) {
  const all = new Map();
  const get = (name) => {
    if (!all.has(name))
      all.set(name, { name, connections: 0, errors: 0, rate: {} });
    return all.get(name);
  };
  for (const e of (s.pool && s.pool.exports) || [])
    Object.assign(get(e.name), { size: e.size, used: e.used, listed: e });
  for (const e of s.server.exports) {
    const x = get(e.name);
    x.connections = e.connections;
    x.errors = Object.values(e.ops).reduce((n, o) => n + o.errors, 0);
    x.counted = true;
  }
  for (const [name, rate] of Object.entries(s.rates || {}))
    get(name).rate = rate;
  /* Removed ones without clients are of no interest. */
  const list = [...all.values()]
    .filter((x) => x.listed || !s.pool || x.connections > 0 ||
            x.name === "@others");
  const load = (x) => (x.rate.reads || 0) + (x.rate.writes || 0);
  return list.sort((a, b) => load(b) - load(a) ||
                   b.connections - a.connections ||
                   (a.name < b.name ? -1 : 1));
}

function exportRow(x) {
  const tr = element("tr", x.rate.reads || x.rate.writes ? "busy" : "");
  const name = element("td", "name", x.name);
  const rate = (key) => x.rate[key] || 0;
  name.title = x.name;
  if (x.listed && (x.listed.description || x.listed.read_only))
    name.append(element("small", "", [x.listed.read_only ? "read-only" : "",
                                      x.listed.description || ""]
      .filter((t) => t).join(", ")));
  tr.dataset.name = x.name;
  const used = cell(x.used === undefined ? "" : size(x.used), x.used);
  if (x.size > 0) {
    const meter = element("span", "meter"), i = element("i");
    i.style.width = Math.min(100, 100 * x.used / x.size) + "%";
    meter.append(i);
    used.append(meter);
  }
  tr.append(name, cell(x.size === undefined ? "" : size(x.size), x.size),
            used, cell(whole(x.connections), x.connections),
            cell(count(rate("reads")) + "/s", rate("reads")),
            cell(count(rate("writes")) + "/s", rate("writes")),
            cell(size(rate("read_bytes")) + "/s", rate("read_bytes")),
            cell(size(rate("written_bytes")) + "/s", rate("written_bytes")),
            cell(whole(x.errors), x.errors, x.errors ? "error" : ""));
  return tr;
}

function showExports(s) {
  const text = $("filter").value.toLowerCase();
  const all = allExports(s);
  show("exports-count", whole(all.length), all.length);
  $("filter").hidden = all.length < 8 && text === "";
  fillTable("exports",
            all.filter((x) => x.name.toLowerCase().includes(text))
              .map(exportRow),
            text ? "No export has this in its name." :
              "Nothing to export yet.");
}

function clientRow(c, now) {
  const tr = element("tr"), name = element("td", "name", c.export || "–");
  name.title = c.export;
  if (c.tls)
    name.append(element("small", "", "TLS"));
  tr.dataset.id = c.client;
  tr.append(element("td", "n", c.client), name, element("td", "", c.peer),
            cell(c.state === "attached" ? age(now - c.since) : c.state),
            cell(whole(c.in_flight), c.in_flight),
            cell(whole(c.requests), c.requests),
            cell(size(c.bytes_in), c.bytes_in),
            cell(size(c.bytes_out), c.bytes_out));
  return tr;
}

function showClients(s) {
  const all = s.clients || [];
  show("clients-count", whole(s.server.connections), s.server.connections);
  fillTable("clients", all.map((c) => clientRow(c, s.time)),
            "Nobody is connected.");
}

function showTotals(s) {
  const list = $("totals");
  list.replaceChildren();
  for (const [name, op] of Object.entries(s.server.ops)) {
    const dd = element("dd", "", whole(op.requests));
    const parts = [];
    dd.id = "total-" + name;
    dd.dataset.value = op.requests;
    dd.dataset.bytes = op.bytes;
    dd.dataset.errors = op.errors;
    if (op.requests > op.errors) {
      if (name !== "flush")
        parts.push(size(op.bytes));
      parts.push("p50 " + latency(op.p50), "p99 " + latency(op.p99));
    }
    if (op.errors)
      parts.push(whole(op.errors) + " errors");
    for (const part of parts.length ? parts : ["none yet"])
      dd.append(element("span", "", part));
    list.append(element("dt", "", { read: "Reads", write: "Writes",
                                    flush: "Flushes", trim: "Trims",
                                    zero: "Zeroes", cache: "Cache",
                                    status: "Block status" }[name] || name),
                dd);
  }
  /* A term and its value stay together in the grid. */
  const pairs = [...list.children];
  list.replaceChildren();
  for (let i = 0; i < pairs.length; i += 2) {
    const div = element("div");
    div.append(pairs[i], pairs[i + 1]);
    list.append(div);
  }
}

/* --- asking --- */

let status = null;

function showAll() {
  showHead(status);
  showNow(status);
  for (const chart of charts)
    chart.update(status.history);
  showSpace(status.pool && status.pool.df);
  showExports(status);
  showClients(status);
  showTotals(status);
}

async function ask() {
  try {
    const answer = await fetch("/status.json", { cache: "no-store" });
    if (!answer.ok)
      throw new Error("status " + answer.status);
    status = await answer.json();
    $("main").classList.remove("stale");
    showAll();
    document.body.dataset.ready = "yes";
  } catch (error) {
    $("main").classList.add("stale");
    $("health").dataset.state = "bad";
    $("health").textContent = "Not answering";
    console.error(error);
  }
}

async function run() {
  if (document.visibilityState === "visible")
    await ask();
  setTimeout(run, EVERY_MS);
}

$("filter").addEventListener("input", () => status && showExports(status));
document.addEventListener("visibilitychange", () =>
  document.visibilityState === "visible" && ask());
addEventListener("resize", () => charts.forEach((c) => c.draw()));
run();
