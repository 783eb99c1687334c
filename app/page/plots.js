// SPDX-License-Identifier: BSD-3-Clause
// plots.js - PSNs, throughput and round trips over time. The three plots share their time axis.

const LEFT = 64, RIGHT = 10, TOP = 8, BOTTOM = 18, BINS = 240, PSNS = 1 << 24;
const HEIGHTS = [200, 96, 96];

// Returns about @count round numbers between two values.
function ticks(from, to, count) {
  const span = to - from;
  if (!(span > 0)) return [from];
  const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough) || power * 10;
  const found = [];
  for (let i = Math.ceil(from / step); i * step <= to + step / 1e6; i++) found.push(i * step);
  return found;
}

class Plots {
  constructor(capture, state, onSelect) {
    Object.assign(this, {capture, state, onSelect, drag: null});
    this.view = [0, Math.max(capture.last, 1e-9)];
    this.direction = -1; // direction of the requests in the PSN plot; -1: the one with more
    this.canvases = ["psn", "rate", "rtt"].map(id => document.getElementById(id));
    this.layers = this.canvases.map(() => document.createElement("canvas"));
    for (const canvas of this.canvases) {
      canvas.addEventListener("mousedown", event => this.begin(event, canvas));
      canvas.addEventListener("dblclick", () => this.zoom(0, Math.max(capture.last, 1e-9)));
    }
    window.addEventListener("mousemove", event => this.move(event));
    window.addEventListener("mouseup", event => this.end(event));
  }

  zoom(from, to) {
    this.view = [from, to];
    document.getElementById("zoom").textContent = from === 0 && to >= this.capture.last
      ? "drag in a plot to zoom" : "double click: the whole time";
    this.draw();
  }

  timeAt(x, width) {
    const [from, to] = this.view;
    return from + (x - LEFT) / (width - LEFT - RIGHT) * (to - from);
  }

  x(time, width) {
    const [from, to] = this.view;
    return LEFT + (time - from) / (to - from) * (width - LEFT - RIGHT);
  }

  begin(event, canvas) {
    const box = canvas.getBoundingClientRect();
    this.drag = {canvas, box, from: event.clientX - box.left, to: event.clientX - box.left,
                 y: event.clientY - box.top};
    event.preventDefault();
  }

  move(event) {
    if (!this.drag) return;
    this.drag.to = event.clientX - this.drag.box.left;
    this.draw();
  }

  end() {
    const drag = this.drag;
    if (!drag) return;
    this.drag = null;
    const width = drag.box.width;
    if (Math.abs(drag.to - drag.from) < 5) return this.pick(drag, width);
    const times = [this.timeAt(drag.from, width), this.timeAt(drag.to, width)];
    this.zoom(Math.max(0, Math.min(...times)), Math.max(...times));
  }

  // Selects the frame that is nearest to a click.
  pick(drag, width) {
    let best = -1, distance = Infinity;
    for (const [x, y, frame] of this.points(drag.canvas.id, width)) {
      const away = (x - drag.from) ** 2 + (y === null ? 0 : (y - drag.y) ** 2);
      if (away < distance) { distance = away; best = frame; }
    }
    this.draw();
    if (best >= 0) this.onSelect(best);
  }

  // Yields [x, y, frame] of the points of a plot that a click can select.
  *points(id, width) {
    const list = id === "psn" ? this.psnPoints : id === "rtt" ? this.rttPoints : null;
    if (list) {
      for (const point of list || []) yield point;
      return;
    }
    for (const frame of this.state.rows)
      yield [this.x(this.capture.time[frame], width), null, frame];
  }

  // Returns the connection of the PSN plot: the chosen one, else the one of the selected frame, else
  // the largest.
  get connection() {
    const {capture, state} = this;
    if (state.connection >= 0) return state.connection;
    const selected = capture.connection[state.selected];
    return selected >= 0 && selected !== undefined ? selected : state.largest;
  }

  // Draws the three plots. The dots, lines and axes of a plot are on a hidden canvas, which is drawn
  // again only when they change. The band, the selection and the drag are drawn each time.
  draw() {
    this.canvases.forEach((canvas, i) => {
      const [context, width, height] = fitCanvas(canvas, canvas.clientWidth, HEIGHTS[i]);
      const layer = this.layer(i, canvas, width, height);
      context.drawImage(layer, 0, 0, width, height);
      this.drawBand(context, width, height);
      this.drawSelection(context, canvas, width, height);
    });
  }

  layer(i, canvas, width, height) {
    const layer = this.layers[i];
    const key = [...this.view, this.state.connection, this.connection, this.direction,
                 this.state.color("--back"), canvas.width].join(" ");
    if (layer.key === key) return layer;
    layer.key = key;
    const [context] = fitCanvas(layer, width, height);
    context.font = SMALL;
    [this.drawPsn, this.drawRate, this.drawRtt][i].call(this, context, width, height);
    this.drawTimes(context, width, height);
    return layer;
  }

  // Marks the time of the rows that the ladder shows.
  drawBand(context, width, height) {
    const [from, to] = this.state.band();
    const x0 = Math.max(LEFT, this.x(from, width)), x1 = Math.min(width - RIGHT, this.x(to, width));
    if (x1 < LEFT || x0 > width - RIGHT) return;
    context.fillStyle = this.state.color("--band");
    context.fillRect(x0, TOP, Math.max(2, x1 - x0), height - TOP - BOTTOM);
  }

  drawTimes(context, width, height) {
    const [from, to] = this.view;
    context.fillStyle = this.state.color("--soft");
    context.textBaseline = "alphabetic";
    context.textAlign = "center";
    for (const time of ticks(from, to, 6)) {
      const x = this.x(time, width);
      if (x < LEFT || x > width - 24) continue;
      context.fillRect(x, height - BOTTOM, 1, 4);
      context.fillText(duration(time), x, height - 4);
    }
  }

  drawSelection(context, canvas, width, height) {
    const {state} = this, x = this.x(this.capture.time[state.selected] || 0, width);
    if (state.selected >= 0 && x >= LEFT && x <= width - RIGHT) {
      context.fillStyle = state.color("--text");
      context.fillRect(x, TOP, 1, height - TOP - BOTTOM);
    }
    if (this.drag && this.drag.canvas === canvas) {
      context.fillStyle = state.color("--band");
      context.fillRect(this.drag.from, TOP, this.drag.to - this.drag.from, height - TOP - BOTTOM);
    }
  }

  // Draws the values of the vertical axis, and returns value -> y.
  drawAxis(context, from, to, width, height, text, count) {
    const scale = (height - TOP - BOTTOM) / (to - from || 1);
    const y = value => height - BOTTOM - (value - from) * scale;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const value of ticks(from, to, count)) {
      context.fillStyle = this.state.color("--line");
      context.fillRect(LEFT, y(value), width - LEFT - RIGHT, 1);
      context.fillStyle = this.state.color("--soft");
      context.fillText(text(value), LEFT - 6, y(value));
    }
    return y;
  }

  // ---- PSNs ----------------------------------------------------------------------------------

  // Returns [frame, PSN without wrap] of the requests in one direction and of their responses, and
  // [frame, null] of each CNP of the connection.
  psnsOf(connection, direction) {
    const {capture} = this, found = [];
    let last = null;
    for (let i = 0; i < capture.count; i++) {
      if (capture.connection[i] !== connection || capture.opcode[i] < 0) continue;
      const kind = capture.kind[i];
      const response = capture.opcodes[capture.opcode[i]][1] === RESPONSE;
      if (kind === KIND.cnp) { found.push([i, null]); continue; }
      if (kind === KIND.bad || kind === KIND.other) continue;
      if (capture.direction[i] !== (response ? 1 - direction : direction)) continue;
      const psn = capture.psn[i];
      if (last === null) last = psn;
      let away = (psn - last) % PSNS;
      if (away < 0) away += PSNS;
      if (away >= PSNS / 2) away -= PSNS;
      last += away;
      found.push([i, last]);
    }
    return found;
  }

  // Returns the direction with more requests.
  busier(connection) {
    const counts = [0, 0], {capture} = this;
    for (let i = 0; i < capture.count; i++)
      if (capture.connection[i] === connection && capture.opcode[i] >= 0 &&
          capture.opcodes[capture.opcode[i]][1] === REQUEST) counts[capture.direction[i]]++;
    return counts[1] > counts[0] ? 1 : 0;
  }

  choosePsns() {
    const connection = this.connection;
    const key = connection + " " + this.direction;
    if (this.psnKey === key) return;
    this.psnKey = key;
    this.shown = this.direction < 0 && connection >= 0 ? this.busier(connection) : this.direction;
    this.psns = connection < 0 ? [] : this.psnsOf(connection, this.shown);
    const name = connection < 0 ? "" : sideText(this.capture, connection, this.shown);
    document.getElementById("psnTitle").textContent = "PSN over time: requests of " + name;
    document.querySelectorAll("#directions button").forEach((button, i) =>
      button.classList.toggle("on", i === this.shown));
  }

  drawPsn(context, width, height) {
    this.choosePsns();
    const {capture} = this, [from, to] = this.view;
    const seen = this.psns.filter(([i]) => capture.time[i] >= from && capture.time[i] <= to);
    let low = Infinity, high = -Infinity;
    for (const [, psn] of seen) {
      if (psn === null) continue;
      low = Math.min(low, psn);
      high = Math.max(high, psn);
    }
    if (low > high) { low = 0; high = 1; }
    const extra = Math.max(1, (high - low) * .04);
    const text = value => Number.isInteger(value) ? String(((value % PSNS) + PSNS) % PSNS) : "";
    const y = this.drawAxis(context, low - extra, high + extra, width, height, text, 6);
    this.psnPoints = seen.map(([i, psn]) =>
      [this.x(capture.time[i], width), psn === null ? height - BOTTOM - 4 : y(psn), i]);
    const size = seen.length > 3000 ? 2 : 4;
    // Rare kinds are drawn last, so that nothing covers them.
    for (const kind of [KIND.request, KIND.response, KIND.repeat, KIND.cnp, KIND.rnr, KIND.nak])
      this.drawPoints(context, kind, size);
  }

  drawPoints(context, kind, size) {
    const rare = kind === KIND.nak || kind === KIND.rnr || kind === KIND.cnp;
    context.fillStyle = context.strokeStyle = this.state.color(KINDS[kind].color);
    context.lineWidth = 2;
    for (const [x, y, i] of this.psnPoints) {
      if (this.capture.kind[i] !== kind) continue;
      if (kind === KIND.response) {
        context.fillRect(x - size / 2, y - 1, size, 2);
      } else if (!rare) {
        const side = kind === KIND.repeat ? size + 1 : size;
        context.fillRect(x - side / 2, y - side / 2, side, side);
      } else if (kind === KIND.cnp) {
        context.fillRect(x - 1, y - 3, 2, 7);
      } else {
        context.beginPath();
        context.moveTo(x - 4, y - 4); context.lineTo(x + 4, y + 4);
        context.moveTo(x - 4, y + 4); context.lineTo(x + 4, y - 4);
        context.stroke();
      }
    }
  }

  // ---- throughput ----------------------------------------------------------------------------

  // Returns the bits of payload per second in each part of the visible time: A to B, B to A,
  // retransmitted.
  sumRates() {
    const {capture, state} = this, [from, to] = this.view, step = (to - from) / BINS;
    const sums = [new Float64Array(BINS), new Float64Array(BINS), new Float64Array(BINS)];
    for (let i = 0; i < capture.count; i++) {
      const bin = Math.floor((capture.time[i] - from) / step);
      if (bin < 0 || bin >= BINS || capture.kind[i] >= KIND.bad) continue;
      if (state.connection >= 0 && capture.connection[i] !== state.connection) continue;
      const which = capture.kind[i] === KIND.repeat ? 2 : capture.direction[i];
      sums[which][bin] += capture.payload[i] * 8 / step;
    }
    return sums;
  }

  drawRate(context, width, height) {
    const {state} = this, [from, to] = this.view, step = (to - from) / BINS;
    const sums = this.sumRates();
    const most = Math.max(1, ...sums[0], ...sums[1], ...sums[2]);
    const y = this.drawAxis(context, 0, most * 1.05, width, height, rate, 3);
    const colors = ["--request", "--response", "--repeat"];
    sums.forEach((sum, which) => {
      context.strokeStyle = state.color(colors[which]);
      context.lineWidth = 1.4;
      context.beginPath();
      sum.forEach((value, bin) => {
        const x = this.x(from + bin * step, width);
        context.lineTo(x, y(value));
        context.lineTo(this.x(from + (bin + 1) * step, width), y(value));
      });
      context.stroke();
    });
  }

  // ---- round trips ---------------------------------------------------------------------------

  // Returns [frame, seconds] of each response in the visible time whose request was sent once.
  findTrips() {
    const {capture, state} = this, [from, to] = this.view, found = [];
    for (let i = 0; i < capture.count; i++) {
      if (!(capture.mark[i] & MARK.timed)) continue;
      if (capture.time[i] < from || capture.time[i] > to) continue;
      if (state.connection >= 0 && capture.connection[i] !== state.connection) continue;
      found.push([i, capture.time[i] - capture.time[capture.related[i] - 1]]);
    }
    return found;
  }

  drawRtt(context, width, height) {
    const {capture, state} = this;
    const found = this.findTrips();
    const most = found.reduce((largest, [, value]) => Math.max(largest, value), 0);
    const y = this.drawAxis(context, 0, most * 1.08 || 1e-6, width, height, duration, 3);
    this.rttPoints = found.map(([i, value]) => [this.x(capture.time[i], width), y(value), i]);
    context.fillStyle = state.color("--response");
    const size = found.length > 3000 ? 2 : 3;
    for (const [x, top] of this.rttPoints)
      context.fillRect(x - size / 2, top - size / 2, size, size);
  }
}
