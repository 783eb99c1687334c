// SPDX-License-Identifier: BSD-3-Clause
// ladder.js - the frames as arrows between the two sides. Only the visible rows are drawn, so the
// number of frames does not matter.

const ROW = 22, NUMBER_X = 52, TIME_X = 138, FONT = "12px system-ui, 'DejaVu Sans', sans-serif";
const SMALL = "10px system-ui, 'DejaVu Sans', sans-serif";
const SCROLL_MAX = 15000000; // pixels that a browser can scroll

// Fits a canvas to its size on the screen. Returns [context, width, height] in CSS pixels.
function fitCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}

class Ladder {
  constructor(capture, state, onSelect, onScroll) {
    Object.assign(this, {capture, state, onSelect, onScroll});
    this.scroller = document.getElementById("scroller");
    this.canvas = document.getElementById("ladder");
    this.spacer = document.getElementById("spacer");
    this.scroller.addEventListener("scroll", () => this.scrolled());
    this.canvas.addEventListener("click", event => this.clicked(event));
    this.scroller.addEventListener("keydown", event => this.pressed(event));
  }

  // Rows that fit on the screen.
  get visible() { return Math.max(1, Math.floor(this.scroller.clientHeight / ROW)); }

  // Number of the first visible row. A list too long for a browser scrolls several rows per pixel.
  get top() {
    const rows = this.state.rows.length;
    const space = this.spacer.offsetHeight - this.scroller.clientHeight;
    if (rows * ROW <= SCROLL_MAX) return Math.floor(this.scroller.scrollTop / ROW);
    return Math.floor(this.scroller.scrollTop / Math.max(1, space) * (rows - this.visible));
  }

  resize() {
    this.spacer.style.height = Math.min(this.state.rows.length * ROW, SCROLL_MAX) + "px";
    document.getElementById("empty").hidden = this.state.rows.length > 0;
    this.draw();
  }

  scrolled() {
    this.draw();
    this.onScroll();
  }

  clicked(event) {
    const row = this.top + Math.floor(event.offsetY / ROW);
    if (row < this.state.rows.length) this.onSelect(this.state.rows[row]);
  }

  pressed(event) {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (!step) return;
    event.preventDefault();
    const row = this.rowOf(this.state.selected) + step;
    if (row >= 0 && row < this.state.rows.length) this.onSelect(this.state.rows[row]);
  }

  // Returns the row of a frame, or of the next frame that is shown.
  rowOf(frame) {
    const rows = this.state.rows;
    let low = 0, high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle] < frame) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Scrolls so that the frame is visible.
  show(frame) {
    const row = this.rowOf(frame), rows = this.state.rows.length;
    if (row >= this.top && row < this.top + this.visible) return this.draw();
    const target = Math.max(0, row - (this.visible >> 1));
    const space = this.spacer.offsetHeight - this.scroller.clientHeight;
    this.scroller.scrollTop = rows * ROW <= SCROLL_MAX
      ? target * ROW : target / Math.max(1, rows - this.visible) * space;
    this.draw();
  }

  // Returns the times of the first and the last visible row.
  visibleTimes() {
    const {rows} = this.state, {time} = this.capture;
    if (rows.length === 0) return [0, 0];
    const last = Math.min(rows.length - 1, this.top + this.visible);
    return [time[rows[Math.min(this.top, last)]], time[rows[last]]];
  }

  draw() {
    const width = this.scroller.clientWidth, height = this.scroller.clientHeight;
    this.canvas.style.width = width + "px";
    this.canvas.style.height = height + "px";
    const [context] = fitCanvas(this.canvas, width, height);
    const sides = this.state.connection < 0 ? 118 : 12;
    const x = [TIME_X + 20 + sides, width - 24 - sides];
    const top = this.top;
    const last = Math.min(this.state.rows.length, top + this.visible + 1);
    context.textBaseline = "middle";
    for (let row = top; row < last; row++)
      this.drawBack(context, row, (row - top) * ROW, width);
    this.drawLifelines(context, x, height);
    for (let row = top; row < last; row++) this.drawRow(context, row, (row - top) * ROW, x);
  }

  drawBack(context, row, y, width) {
    const frame = this.state.rows[row];
    const color = frame === this.state.selected ? "--select"
      : this.capture.findingsOf.has(frame) ? "--mark" : null;
    if (!color) return;
    context.fillStyle = this.state.color(color);
    context.fillRect(0, y, width, ROW);
  }

  drawLifelines(context, x, height) {
    context.strokeStyle = this.state.color("--line");
    context.lineWidth = 2;
    context.beginPath();
    for (const side of x) { context.moveTo(side, 0); context.lineTo(side, height); }
    context.stroke();
  }

  drawRow(context, row, y, x) {
    const {capture, state} = this, frame = state.rows[row], middle = y + ROW / 2;
    context.font = FONT;
    context.textAlign = "right";
    context.fillStyle = state.color("--soft");
    context.fillText(capture.numberOf(frame), NUMBER_X, middle);
    if (capture.findingsOf.has(frame)) this.drawFinding(context, middle);
    context.fillStyle = state.color("--soft");
    context.fillText(seconds(capture.time[frame]), TIME_X, middle);
    if (state.connection < 0) this.drawSides(context, row, middle, x);
    this.drawArrow(context, frame, middle, x);
  }

  // Draws a red dot before the number of a frame that breaks a rule.
  drawFinding(context, y) {
    context.fillStyle = this.state.color("--nak");
    context.beginPath();
    context.arc(8, y, 4, 0, 2 * Math.PI);
    context.fill();
  }

  // Names the sides in the first visible row, and where the connection changes from one row to the
  // next.
  drawSides(context, row, y, x) {
    const {capture, state} = this, connection = capture.connection[state.rows[row]];
    if (connection < 0) return;
    if (row > this.top && capture.connection[state.rows[row - 1]] === connection) return;
    context.font = SMALL;
    for (const side of [0, 1]) {
      const [address, , qpn] = sideText(capture, connection, side).split(" ");
      context.textAlign = side === 0 ? "right" : "left";
      const at = x[side] + (side === 0 ? -6 : 6);
      context.fillText(address.length > 20 ? "…" + address.slice(-18) : address, at, y - 5);
      context.fillText(qpn, at, y + 5);
    }
  }

  drawArrow(context, frame, y, x) {
    const {capture, state} = this, kind = capture.kind[frame];
    const text = arrowText(capture, frame);
    const color = state.color(KINDS[kind].color);
    context.strokeStyle = context.fillStyle = color;
    if (capture.connection[frame] >= 0) {
      const back = capture.direction[frame] === 1;
      const from = back ? x[1] : x[0], to = back ? x[0] : x[1], step = back ? -7 : 7;
      context.lineWidth = kind === KIND.repeat ? 2 : 1.3;
      context.setLineDash(kind === KIND.repeat || kind === KIND.other ? [5, 3] : []);
      context.beginPath();
      context.moveTo(from, y);
      context.lineTo(to - step, y);
      context.stroke();
      context.setLineDash([]);
      context.beginPath();
      context.moveTo(to, y);
      context.lineTo(to - step, y - 4);
      context.lineTo(to - step, y + 4);
      context.fill();
    }
    this.drawLabel(context, frame, text, y, (x[0] + x[1]) / 2, color);
  }

  // Writes the text of an arrow on the colour of its row.
  drawLabel(context, frame, text, y, center, color) {
    const {state} = this;
    context.font = FONT;
    context.textAlign = "center";
    const width = context.measureText(text).width + 12;
    context.fillStyle = state.color(frame === state.selected ? "--select"
      : this.capture.findingsOf.has(frame) ? "--mark" : "--back");
    context.fillRect(center - width / 2, y - ROW / 2 + 1, width, ROW - 2);
    context.fillStyle = color;
    context.fillText(text, center, y);
  }
}
