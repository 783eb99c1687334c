// SPDX-License-Identifier: BSD-3-Clause
// data.js - the capture as the page has it: columns of frames, their kinds, and texts.

const MARK = {repeated: 1, copy: 2, gap: 4, late: 8, nak: 16, rnr: 32, cnp: 64, restart: 128,
              timed: 256, bad: 512, congestion: 1024};
const REQUEST = 0, RESPONSE = 1;

// Kinds of frames. The kind of a frame determines its colour and its filter.
const KINDS = [
  {name: "requests", color: "--request"}, {name: "responses", color: "--response"},
  {name: "retransmissions", color: "--repeat"}, {name: "NAKs", color: "--nak"},
  {name: "RNR NAKs", color: "--rnr"}, {name: "CNPs", color: "--cnp"},
  {name: "dropped", color: "--bad"}, {name: "other", color: "--other"},
];
const KIND = {request: 0, response: 1, repeat: 2, nak: 3, rnr: 4, cnp: 5, bad: 6, other: 7};

function kindOf(opcode, mark, opcodes) {
  if (mark & MARK.bad) return KIND.bad;
  if (opcode < 0 || mark & MARK.copy) return KIND.other;
  if (mark & MARK.cnp) return KIND.cnp;
  if (mark & MARK.rnr) return KIND.rnr;
  if (mark & MARK.nak) return KIND.nak;
  if (opcodes[opcode][1] === RESPONSE) return KIND.response;
  return mark & MARK.repeated ? KIND.repeat : KIND.request;
}

// Reads the data of the page. Times are in seconds since the first frame.
function readCapture() {
  const raw = JSON.parse(document.getElementById("data").textContent);
  const count = raw.time.length;
  const capture = Object.assign({}, raw, {
    count,
    time: new Float64Array(count),
    kind: new Uint8Array(count),
    findingsOf: new Map(),
    // The number of the frame of a packet. A frame that the kernel joined has several packets.
    numberOf: (packet) => raw.number ? raw.number[packet] : packet + 1,
    packetOf: (number) => raw.number ? raw.number.indexOf(number) : number - 1,
  });
  let now = 0;
  capture.last = 0;
  for (let i = 0; i < count; i++) {
    now += raw.time[i];
    capture.time[i] = now / 1e9;
    capture.last = Math.max(capture.last, capture.time[i]);
    capture.kind[i] = kindOf(raw.opcode[i], raw.mark[i], raw.opcodes);
  }
  raw.findings.forEach((finding, index) => {
    if (!capture.findingsOf.has(finding[0])) capture.findingsOf.set(finding[0], []);
    capture.findingsOf.get(finding[0]).push(index);
  });
  return capture;
}

function hex(qpn) {
  return qpn < 0 ? "qp ?" : "qp 0x" + qpn.toString(16).padStart(6, "0");
}

// Returns the text of side A (0) or B (1) of a connection.
function sideText(capture, connection, side) {
  const [a, aQpn, b, bQpn] = capture.connections[connection];
  const address = capture.addresses[side === 0 ? a : b];
  return address + " " + hex(side === 0 ? aQpn : bQpn);
}

function connectionText(capture, connection) {
  const service = capture.connections[connection][4];
  return `${service}  ${sideText(capture, connection, 0)} ↔ ${sideText(capture, connection, 1)}`;
}

// Returns the text of an arrow: the operation or the reason of a NAK, then PSN, payload and marks. A
// CNP has only its name, and a frame that is not of RoCEv2 the beginning of its text line.
function arrowText(capture, i) {
  const opcode = capture.opcode[i];
  if (opcode < 0) return capture.lines[i].replace(/^.* > \S+ /, "").slice(0, 60);
  const name = capture.opcodes[opcode][0].replace(/^(RC|UC|UD|XRC)_/, "");
  const kind = capture.kind[i];
  if (kind === KIND.cnp) return "CNP";
  let text = `${name} ${capture.psn[i]}`;
  const nak = capture.lines[i].match(/ nak (\S+)|rnr-nak timer (\d+)/);
  if (nak) text = `${nak[1] ? "NAK " + nak[1] : "RNR NAK timer " + nak[2]} ${capture.psn[i]}`;
  if (capture.payload[i] > 0) text += ` · ${capture.payload[i]} B`;
  if (kind === KIND.repeat) text += " again";
  if (capture.mark[i] & MARK.congestion) text += " · CE";
  if (capture.mark[i] & MARK.copy) text += " (copy)";
  return text;
}

function seconds(value, digits) {
  return value.toFixed(digits === undefined ? 6 : digits);
}

// Returns a time with the unit that suits it.
function duration(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-6) return +(value * 1e9).toPrecision(3) + " ns";
  if (size < 1e-3) return +(value * 1e6).toPrecision(3) + " µs";
  if (size < 1) return +(value * 1e3).toPrecision(3) + " ms";
  return +value.toPrecision(4) + " s";
}

// Returns bits per second with the unit that suits it.
function rate(value) {
  const units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit++; }
  return +value.toPrecision(3) + " " + units[unit];
}

// Words of a text line that have a value after them. Other words count as flags.
const FIELDS = new Set(["qp", "psn", "srq", "qkey", "from", "placement", "selectivity", "va",
  "rkey", "len", "msn", "credits", "timer", "nak", "compare", "swap", "add", "original", "imm",
  "invalidate", "pay", "pkey", "vlan", "priority"]);
const FIELD_NAMES = {qp: "destination QP", psn: "PSN", va: "address", rkey: "R_Key", len: "length",
  msn: "MSN", pay: "payload", imm: "immediate data", qkey: "Q_Key", from: "source QP",
  pkey: "P_Key", srq: "XRC SRQ", timer: "RNR timer", nak: "NAK"};

// Returns the operation of a text line, and the rest of the line as [name, value] pairs.
function fieldsOf(line) {
  const [text, ...problem] = line.split(" !");
  const words = text.replace(/^(.*?)\S+ > \S+ /, "$1").split(" ").filter(Boolean);
  const pairs = [], flags = [];
  if (problem.length > 0) pairs.push(["error", problem.join(" !")]);
  for (let i = 0; i < words.length; i++) {
    if (FIELDS.has(words[i]) && i + 1 < words.length) {
      pairs.push([FIELD_NAMES[words[i]] || words[i], words[i + 1] +
                  (words[i] === "pay" ? " bytes" : "")]);
      i++;
    } else {
      flags.push(words[i]);
    }
  }
  if (flags.length > 1) pairs.push(["flags", flags.slice(1).join(", ")]);
  return {operation: flags[0] || "", pairs};
}
