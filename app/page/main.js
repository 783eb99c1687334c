// SPDX-License-Identifier: BSD-3-Clause
// main.js - joins the parts of the page: filters, selection, and the contents of the panels. The
// part of the address after "#" chooses what is shown at first: connection=1&frame=17&search=nak

const byId = id => document.getElementById(id);

window.addEventListener("error", event => { document.body.dataset.error = event.message; });

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

class Page {
  constructor() {
    const capture = this.capture = readCapture();
    this.colors = new Map();
    this.hidden = new Set();
    this.onlyFindings = false;
    this.frames = new Uint32Array(capture.connections.length); // of each connection
    for (const connection of capture.connection) if (connection >= 0) this.frames[connection]++;
    this.state = {
      rows: [], connection: -1, selected: -1, largest: this.largest(),
      color: name => this.color(name), band: () => this.ladder.visibleTimes(),
    };
    const select = frame => this.select(frame);
    this.ladder = new Ladder(capture, this.state, select, () => this.drawPlotsSoon());
    this.plots = new Plots(capture, this.state, select);
    this.makeHeader();
    this.makeConnections();
    this.makeKinds();
    this.makeFindings();
    this.listen();
    this.readAddress();
  }

  largest() {
    let best = -1;
    this.frames.forEach((count, i) => { if (best < 0 || count > this.frames[best]) best = i; });
    return best;
  }

  // Colours of the style sheet, which change with the theme.
  color(name) {
    if (!this.colors.has(name))
      this.colors.set(name, getComputedStyle(document.documentElement).getPropertyValue(name));
    return this.colors.get(name);
  }

  setTheme(dark) {
    document.documentElement.classList.toggle("dark", dark);
    this.colors.clear();
    this.draw();
  }

  makeHeader() {
    const {capture} = this, findings = capture.findings.length;
    byId("file").textContent = capture.file;
    const summary = byId("summary");
    summary.textContent = `${capture.frames} frames, ${capture.roce} packets of RoCEv2, ` +
      `${capture.connections.length} connection${capture.connections.length === 1 ? "" : "s"}, ` +
      duration(capture.last);
    const broken = `${findings} broken rule${findings === 1 ? "" : "s"}`;
    if (findings > 0) summary.append(" · ", element("b", "", broken));
    if (!capture.complete) summary.append(" · the capture lacks packets");
    if (capture.problem) summary.append(" · ", element("b", "", capture.problem));
    document.title = `${capture.file}: ${capture.frames} frames, ${broken}`;
    byId("tabFindings").textContent = `Broken rules (${findings})`;
    const key = byId("rateKey");
    for (const [text, color] of [["A → B ", "--request"], ["B → A ", "--response"],
                                 ["retransmitted", "--repeat"]]) {
      const word = element("span", "", text);
      word.style.color = `var(${color})`;
      key.append(word);
    }
    for (const [i, text] of ["A", "B"].entries()) {
      const button = element("button", "", text);
      button.title = "requests of side " + text;
      button.addEventListener("click", () => { this.plots.direction = i; this.plots.draw(); });
      byId("directions").append(button);
    }
  }

  makeConnections() {
    const list = byId("connection"), {capture} = this, most = 500;
    const order = [...this.frames.keys()].sort((a, b) => this.frames[b] - this.frames[a]);
    const all = element("option", "", `all (${capture.connections.length})`);
    all.value = -1;
    list.append(all);
    for (const i of order.slice(0, most)) {
      const text = `${connectionText(capture, i)}  (${this.frames[i]})`;
      const option = element("option", "", text);
      option.value = i;
      list.append(option);
    }
    if (order.length > most)
      list.append(element("option", "", `… and ${order.length - most} smaller ones`));
  }

  makeKinds() {
    const counts = new Uint32Array(KINDS.length), place = byId("kinds");
    for (const kind of this.capture.kind) counts[kind]++;
    KINDS.forEach((kind, i) => {
      if (counts[i] === 0) return;
      const chip = element("button", "kind");
      const dot = element("i");
      dot.style.color = `var(${kind.color})`;
      chip.append(dot, kind.name, element("small", "", counts[i]));
      chip.addEventListener("click", () => this.toggle(i));
      chip.addEventListener("dblclick", () => this.only(i));
      chip.dataset.kind = i;
      place.append(chip);
    });
    if (this.capture.findings.length === 0) return;
    const chip = element("button", "kind", "only broken rules");
    chip.addEventListener("click", () => {
      this.onlyFindings = !this.onlyFindings;
      chip.classList.toggle("on", this.onlyFindings);
      this.filter();
    });
    place.append(chip);
  }

  toggle(kind) {
    if (!this.hidden.delete(kind)) this.hidden.add(kind);
    this.filter();
  }

  only(kind) {
    this.hidden = new Set(KINDS.keys());
    this.hidden.delete(kind);
    this.filter();
  }

  // Makes a box for a finding. A click on it selects the frame.
  findingBox(index) {
    const [frame, rule, seen, wants, other, more] = this.capture.findings[index];
    const box = element("div", "finding");
    box.append(element("span", "rule", rule), ` frame ${this.capture.numberOf(frame)}: ${seen}`);
    if (other >= 0) box.append(` (frame ${this.capture.numberOf(other)})`);
    box.append(element("div", "soft", `wanted: ${wants}`));
    if (more > 0) box.append(element("div", "soft", `${more} more such frames`));
    box.addEventListener("click", () => this.select(frame));
    return box;
  }

  makeFindings() {
    const panel = byId("findings"), {findings} = this.capture;
    if (findings.length === 0) panel.append("No rule is broken, as far as the capture shows.");
    findings.slice(0, 1000).forEach((_, i) => panel.append(this.findingBox(i)));
    if (findings.length > 1000)
      panel.append(`… and ${findings.length - 1000} more: uroce judge prints all.`);
  }

  listen() {
    byId("theme").addEventListener("click", () =>
      this.setTheme(!document.documentElement.classList.contains("dark")));
    byId("search").addEventListener("input", () => this.filter());
    byId("connection").addEventListener("change", event => this.choose(+event.target.value));
    byId("tabFrame").addEventListener("click", () => this.showTab("frame"));
    byId("tabFindings").addEventListener("click", () => this.showTab("findings"));
    window.addEventListener("resize", () => this.draw());
  }

  showTab(name) {
    for (const [tab, panel] of [["tabFrame", "frame"], ["tabFindings", "findings"]]) {
      byId(tab).classList.toggle("on", panel === name);
      byId(panel).hidden = panel !== name;
    }
  }

  readAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const dark = (wanted.get("theme") || system) === "dark";
    document.documentElement.classList.toggle("dark", dark);
    byId("search").value = wanted.get("search") || "";
    if (wanted.has("from")) this.plots.zoom(+wanted.get("from"), +wanted.get("to"));
    const single = this.capture.connections.length === 1 ? 0 : -1;
    this.choose(+(wanted.get("connection") || single));
    if (wanted.has("frame")) this.select(this.capture.packetOf(+wanted.get("frame")));
    else if (this.state.rows.length > 0) this.select(this.state.rows[0]);
    if (wanted.has("tab")) this.showTab(wanted.get("tab"));
  }

  choose(connection) {
    if (!(connection >= -1 && connection < this.capture.connections.length)) connection = -1;
    this.state.connection = connection;
    byId("connection").value = connection;
    const named = connection >= 0;
    byId("sideA").textContent = named ? "A  " + sideText(this.capture, connection, 0) : "A";
    byId("sideB").textContent = named ? sideText(this.capture, connection, 1) + "  B" : "B";
    this.plots.direction = -1;
    this.filter();
  }

  // Makes the list of the frames that pass all filters.
  filter() {
    const {capture, state} = this, words = byId("search").value.toLowerCase();
    const rows = [];
    for (let i = 0; i < capture.count; i++) {
      if (state.connection >= 0 && capture.connection[i] !== state.connection) continue;
      if (this.hidden.has(capture.kind[i])) continue;
      if (this.onlyFindings && !capture.findingsOf.has(i)) continue;
      if (words && !capture.lines[i].toLowerCase().includes(words)) continue;
      rows.push(i);
    }
    state.rows = Uint32Array.from(rows);
    document.querySelectorAll(".kind[data-kind]").forEach(chip =>
      chip.classList.toggle("off", this.hidden.has(+chip.dataset.kind)));
    document.body.dataset.rows = rows.length;
    this.ladder.resize();
    this.plots.draw();
  }

  select(frame) {
    if (!(frame >= 0 && frame < this.capture.count)) return;
    this.state.selected = frame;
    this.ladder.show(frame);
    this.plots.draw();
    this.showFrame(frame);
    this.showTab("frame");
  }

  frameLink(text, frame) {
    const link = element("span", "link", `${text} ${this.capture.numberOf(frame)}`);
    link.addEventListener("click", () => this.select(frame));
    return link;
  }

  // Shows the decoded frame: its operation, its fields, the frame that it repeats or answers, and the
  // rules that it breaks.
  showFrame(frame) {
    const {capture} = this, panel = byId("frame"), line = capture.lines[frame];
    const {operation, pairs} = fieldsOf(line);
    const connection = capture.connection[frame];
    panel.replaceChildren();
    panel.append(element("h3", "", `Frame ${capture.numberOf(frame)} · ${operation} · ` +
      `${seconds(capture.time[frame], 9)} s`));
    for (const index of capture.findingsOf.get(frame) || []) panel.append(this.findingBox(index));
    const table = element("table");
    const add = (name, value) => {
      const row = table.insertRow(), text = row.insertCell();
      text.textContent = name;
      row.insertCell().append(value);
    };
    if (connection >= 0) {
      const from = capture.direction[frame];
      add("from", sideText(capture, connection, from));
      add("to", sideText(capture, connection, 1 - from));
    }
    for (const [name, value] of pairs)
      add(name, element("span", name === "error" ? "bad" : "", value));
    this.addRelations(frame, add);
    panel.append(table, element("p", "soft"));
    panel.lastChild.append(element("code", "", line));
    document.body.dataset.frame = capture.numberOf(frame);
  }

  addRelations(frame, add) {
    const {capture} = this, mark = capture.mark[frame], related = capture.related[frame] - 1;
    if (related >= 0) {
      const away = duration(capture.time[frame] - capture.time[related]);
      const text = mark & MARK.repeated ? "repeats frame" : "answers frame";
      const link = this.frameLink(text, related);
      const cell = element("span");
      cell.append(link, ` after ${away}`);
      add("relation", cell);
    }
    const notes = [];
    if (mark & MARK.gap) notes.push("requests before it are missing");
    if (mark & MARK.late) notes.push("it was missing until now");
    if (mark & MARK.copy) notes.push("a copy of a frame just before");
    if (mark & MARK.restart) notes.push("begins a new connection of the same queue pairs");
    if (mark & MARK.congestion) notes.push("marked CE: congestion");
    if (mark & MARK.bad) notes.push("a receiver drops it");
    if (notes.length > 0) add("note", notes.join("; "));
  }

  // Draws the plots once for all scroll events before the next picture.
  drawPlotsSoon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.plots.draw(); });
  }

  draw() {
    this.ladder.draw();
    this.plots.draw();
  }
}

document.body.dataset.frames = new Page().capture.count;
