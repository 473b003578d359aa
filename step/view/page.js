"use strict"
// The page of a step. Calls have the numbers of G.nodes; a box b has the number ~b (below 0); the whole is ROOT.
const G = JSON.parse(document.getElementById("data").textContent), N = G.nodes, E = G.edges, B = G.boxes, ROOT = "root"
const $ = id => document.getElementById(id), SVG = "http://www.w3.org/2000/svg"
const num = x => x === undefined || x === null ? NaN : typeof x === "number" ? x : x === "inf" ? Infinity : x === "-inf" ? -Infinity : NaN
const show = (x, d = 4) => { const v = num(x); return Number.isNaN(v) ? "–" : !v ? "0" : !Number.isFinite(v) ? String(x) : v && Math.abs(v) < 1e-3 ? v.toExponential(d - 1) : v.toPrecision(d) }
const short = op => op.slice(op.lastIndexOf(".") + 1)
const name = n => short(n.op) + "/" + n.id
const dims = type => (type || "").replace(/\[([\d ]*)\]$/, (_, s) => s ? s.split(" ").join("×") : "scalar")
const phone = () => innerWidth < 800

// ---- what is in what
const parent = i => { const b = i >= 0 ? N[i].box : B[~i].parent; return b < 0 ? ROOT : ~b }
const first = i => i >= 0 ? i : B[~i].first, calls = i => i >= 0 ? 1 : B[~i].calls
const children = new Map([[ROOT, []]])
B.forEach((_, b) => children.set(~b, []))
B.forEach((_, b) => children.get(parent(~b)).push(~b))
N.forEach((_, i) => children.get(parent(i)).push(i))
for (const list of children.values()) list.sort((a, b) => first(a) - first(b))
const paths = new Map() // of a box or the root: it and what it is in, the outermost first
const pathOf = c => { if (!paths.has(c)) paths.set(c, c === ROOT ? [ROOT] : [...pathOf(parent(c)), c]); return paths.get(c) }

// ---- edges of each level, and the ports of each box: what it reads from outside, and what outside reads
const levels = new Map(), way = new Set(G.way || []), waySteps = new Set((G.way || []).slice(1).map((to, k) => G.way[k] + ">" + to))
for (const c of children.keys()) levels.set(c, { edges: new Map(), ins: new Map(), outs: new Map() })
N.forEach(n => { n.in = []; n.out = [] })
E.forEach((e, k) => {
  N[e.to].in.push(k); N[e.from].out.push(k)
  e.way = waySteps.has(e.from + ">" + e.to)
  if (e.gradient) return // of an optimizer, say: the graph is of forward passes, the side lists it
  const a = pathOf(parent(e.from)), b = pathOf(parent(e.to))
  let d = 0; while (d + 1 < a.length && d + 1 < b.length && a[d + 1] === b[d + 1]) d++
  const from = d + 1 < a.length ? a[d + 1] : e.from, to = d + 1 < b.length ? b[d + 1] : e.to
  const add = (map, key, more) => { if (!map.has(key)) map.set(key, { ...more, of: [] }); map.get(key).of.push(k) }
  add(levels.get(a[d]).edges, from + ">" + to, { from, to })
  for (let i = d + 1; i < a.length; i++) add(levels.get(a[i]).outs, e.from, { call: e.from, inner: a[i + 1] ?? e.from })
  for (let i = d + 1; i < b.length; i++) { // an outside producer is one port, however many calls in the box read it
    const port = levels.get(b[i]).ins; if (!port.has(e.from)) port.set(e.from, { call: e.from, to: new Map() })
    const to = b[i + 1] ?? e.to, links = port.get(e.from).to; if (!links.has(to)) links.set(to, []); links.get(to).push(k)
  }
})

// ---- what a call or a box shows
const rank = { pass: 0, skipped: 1, unsupported: 2, mistrusted: 3, warn: 4, known: 4.5, error: 5, invalid: 6, crash: 7, fail: 8 }
const worse = (a, b) => (rank[a] ?? 1) >= (rank[b] ?? 1) ? a : b
const paint = v => "var(--" + ({ pass: "pass", warn: "warn", fail: "fail", mistrusted: "mistrusted", error: "error", invalid: "error", crash: "error" }[v] || "skipped") + ")"
const heads = G.findings.filter(f => f.like === undefined) // the first finding of each kind
const likes = f => G.findings.filter(g => g.like !== undefined && G.findings[g.like] === f)
const effectOf = (n, d = 4) => n.effect_unreliable ? "about " + Number(Math.abs(num(n.effect)).toPrecision(1)) : show(n.effect, d)
const isWarning = f => f.rule === "drift" || f.rule === "nonfinite"
const faults = new Map(), apart = new Set() // what is wrong at a call, and calls between which something is
for (const f of G.findings) {
  if (f.node < 0) continue
  if (!faults.has(f.node)) faults.set(f.node, f)
  if (f.between) { apart.add(f.node); if (f.from !== undefined) apart.add(f.from) }
}
for (const f of G.findings) if (!f.between) apart.delete(f.node)
const size = i => { const v = Math.abs(num(i)); return Number.isFinite(v) ? v : 0 }
const most = N.reduce((m, n) => Math.max(m, size(n.effect)), 0)
const sums = new Map()
function sumOf(i) { // the worst of a call or of those in a box
  if (sums.has(i)) return sums.get(i)
  const s = { forward: "pass", backward: "", local: 0, total: 0, effect: 0, faults: 0, apart: 0, wrong: 0, way: false, count: {} }
  for (let k = first(i); k < first(i) + calls(i); k++) {
    const n = N[k]
    s.forward = k === first(i) ? n.verdict : worse(s.forward, n.verdict)
    if (n.backward) s.backward = s.backward ? worse(s.backward, n.backward) : n.backward
    s.local = Math.max(s.local, size(n.local_error)); s.total = Math.max(s.total, size(n.total_error)); s.effect = Math.max(s.effect, size(n.effect))
    if (apart.has(k)) s.apart++; else if (faults.has(k)) s.faults++
    if (n.verdict === "fail" || n.backward === "fail") s.wrong++
    s.way ||= way.has(k)
  }
  sums.set(i, s); return s
}
let coloring = "verdict"
// Skipped calls in a box must not hide that the others passed; only what is worse than mistrusted colours a box.
const boxVerdict = v => (rank[v] ?? 1) > rank.mistrusted ? v : "pass"
function fillOf(i) {
  const s = sumOf(i)
  if (coloring === "verdict") { const v = i < 0 ? boxVerdict(s.forward) : s.forward; return `color-mix(in srgb, ${paint(v)} ${v === "fail" ? 62 : 34}%, var(--bg))` }
  const x = coloring === "effect" ? (most ? Math.log10(Math.max(s.effect / most, 1e-6)) / 6 + 1 : 0) : (Math.log10(Math.max(s[coloring], 1e-9)) + 9) / 9
  return `color-mix(in srgb, ${coloring === "local" ? "var(--local)" : coloring === "total" ? "var(--total)" : "var(--way)"} ${Math.round(100 * Math.max(0, Math.min(1, x)))}%, var(--bg))`
}
function title(i) {
  if (i < 0) return B[~i].name || "calls"
  const n = N[i]; return name(n)
}
// The part of the module's path that no box shows: the box of a single call is the call.
function role(i) { const m = N[i].module; if (!m || /(^|\.)\d+$/.test(m)) return ""; const last = m.slice(m.lastIndexOf(".") + 1), b = N[i].box < 0 ? "" : B[N[i].box].name; return b.split(".").includes(last) && b.endsWith(last) ? "" : last }

// ---- layout: each open box is laid out by itself, by dagre, and takes its place in the box that it is in
const open = new Set(), laid = new Map(), measure = document.createElement("canvas").getContext("2d")
const textWidth = (s, font) => { measure.font = font; return measure.measureText(s).width }
const HEAD = 26, PAD = 12, GAP = 20
function labelOf(of) {
  const values = new Set(of.map(k => E[k].from + " " + dims(E[k].type)))
  return values.size === 1 ? dims(E[of[0]].type) : values.size + " tensors"
}
function boxSize(i) {
  if (open.has(i)) { const l = layout(i); return { w: Math.max(l.w + 2 * PAD, textWidth(title(i), "600 12px system-ui, sans-serif") + 130), h: l.h + HEAD + PAD } }
  const sub = i < 0 ? calls(i) + " calls" : dims((N[i].dtype || "") + " " + (N[i].shape || ""))
  return { w: Math.min(300, Math.max(104, 26 + Math.max(textWidth(title(i), "600 12px system-ui, sans-serif") + (i < 0 ? 18 : 0), textWidth(sub + (i >= 0 && role(i) ? "  " + role(i) : ""), "10.5px system-ui, sans-serif")))), h: 42 }
}
function layout(c) {
  if (laid.has(c)) return laid.get(c)
  const level = levels.get(c), kids = children.get(c), at = new Map(kids.map((k, i) => [k, i])), parts = new Map()
  for (const k of kids) parts.set(k, { id: k, ...boxSize(k) })
  const edges = [], far = [], readers = new Map()
  for (const e of level.edges.values()) readers.set(e.from, (readers.get(e.from) || 0) + 1)
  // What very many read, or what is read far behind, would push all else apart: it is drawn across.
  for (const e of level.edges.values()) { const d = at.get(e.to) - at.get(e.from); (d <= 0 || d > 60 || d > 3 && readers.get(e.from) > 8 ? far : edges).push({ ...e, label: labelOf(e.of) }) }
  const port = (id, call, text) => { if (!parts.has(id)) parts.set(id, { id, port: call, text, w: textWidth(text, "10.5px system-ui, sans-serif") + 16, h: 18 }) }
  let n = 0
  for (const p of level.ins.values()) { if (++n > 12) break; const id = "in " + p.call; port(id, p.call, "from " + name(N[p.call])); const tos = [...p.to].sort(([a], [b]) => at.get(a) - at.get(b)); for (const [to, of] of tos.slice(0, tos.length > 8 ? 1 : 8)) edges.push({ from: id, to, of, label: labelOf(of) }) }
  n = 0
  for (const p of level.outs.values()) {
    if (++n > 12) break
    const id = "out " + p.call, tos = new Set(p.of.map(k => E[k].to)), to = Math.min(...tos)
    port(id, to, "to " + (tos.size > 1 ? tos.size + " calls" : name(N[to]))); edges.push({ from: p.inner, to: id, of: p.of, label: labelOf(p.of) })
  }
  const shape = c === ROOT ? Math.max(0.45, stage.clientWidth / Math.max(200, stage.clientHeight)) : phone() ? 0.6 : 1.3
  const l = pack(components(parts, edges).map(g => columns(draw1(g), shape)), shape)
  l.far = far; laid.set(c, l); return l
}
function components(parts, edges) {
  const up = new Map([...parts.keys()].map(k => [k, k])), find = k => { while (up.get(k) !== k) { up.set(k, up.get(up.get(k))); k = up.get(k) } return k }
  for (const e of edges) up.set(find(e.from), find(e.to))
  const out = new Map()
  for (const p of parts.values()) { const r = find(p.id); if (!out.has(r)) out.set(r, { parts: [], edges: [] }); out.get(r).parts.push(p) }
  for (const e of edges) out.get(find(e.from)).edges.push(e)
  return [...out.values()]
}
function draw1(g) { // one connected part, from top to bottom
  if (g.parts.length === 1) { const p = g.parts[0]; return { parts: [{ ...p, x: 0, y: 0 }], edges: [], w: p.w, h: p.h } }
  const d = new dagre.graphlib.Graph({ multigraph: false })
  d.setGraph({ rankdir: "TB", nodesep: 18, edgesep: 14, ranksep: 34, ranker: g.parts.length > 250 ? "tight-tree" : "network-simplex" }); d.setDefaultEdgeLabel(() => ({}))
  for (const p of g.parts) d.setNode(p.id, { width: p.w, height: p.h })
  for (const e of g.edges) d.setEdge(e.from, e.to, { width: textWidth(e.label, "10px system-ui, sans-serif") + 8, height: 12, labelpos: "c", weight: e.of.some(k => E[k].way) ? 4 : 1 })
  dagre.layout(d)
  const parts = g.parts.map(p => { const n = d.node(p.id); return { ...p, x: n.x - p.w / 2, y: n.y - p.h / 2, row: n.y } })
  const edges = g.edges.map(e => { const x = d.edge(e.from, e.to); return { ...e, points: x.points, lx: x.x, ly: x.y } })
  return framed(parts, edges)
}
function framed(parts, edges) { // moved so that it begins at 0, 0
  let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity
  const see = (x, y) => { x0 = Math.min(x0, x); y0 = Math.min(y0, y); x1 = Math.max(x1, x); y1 = Math.max(y1, y) }
  for (const p of parts) { see(p.x, p.y); see(p.x + p.w, p.y + p.h) }
  for (const e of edges) { for (const p of e.points) see(p.x, p.y); if (!e.turn) { const half = textWidth(e.label, "10px system-ui, sans-serif") / 2; see(e.lx - half, e.ly); see(e.lx + half, e.ly) } }
  shift(parts, edges, -x0, -y0)
  return { parts, edges, w: x1 - x0, h: y1 - y0 }
}
function shift(parts, edges, dx, dy) {
  for (const p of parts) { p.x += dx; p.y += dy; if (p.row !== undefined) p.row += dy }
  for (const e of edges) { e.points = e.points.map(p => ({ x: p.x + dx, y: p.y + dy })); e.lx += dx; e.ly += dy }
}
// A tall part is cut into columns, as a newspaper does, where the fewest edges cross.
function columns(l, shape) {
  const rows = [...new Set(l.parts.map(p => p.row))].sort((a, b) => a - b), k = Math.min(Math.round(Math.sqrt(l.h * shape / (l.w + 60))), Math.floor(rows.length / 3))
  if (!(k >= 2) || l.h < 700) return l
  const bottom = new Map(), top = new Map()
  for (const p of l.parts) { bottom.set(p.row, Math.max(bottom.get(p.row) ?? -Infinity, p.y + p.h)); top.set(p.row, Math.min(top.get(p.row) ?? Infinity, p.y)) }
  const cuts = rows.slice(1).map((r, i) => (bottom.get(rows[i]) + top.get(r)) / 2), crossing = y => l.edges.reduce((n, e) => n + (e.points[0].y < y && e.points[e.points.length - 1].y > y), 0)
  const chosen = []
  for (let j = 1; j < k; j++) {
    const ideal = l.h * j / k, near = cuts.filter(y => Math.abs(y - ideal) < l.h / k * 0.3 && y > (chosen[chosen.length - 1] ?? 0))
    if (near.length) chosen.push(near.reduce((a, b) => { const d = crossing(a) * 40 + Math.abs(a - ideal) * .5 - crossing(b) * 40 - Math.abs(b - ideal) * .5; return d <= 0 ? a : b }))
  }
  if (!chosen.length) return l
  const col = y => { let c = 0; while (c < chosen.length && y > chosen[c]) c++; return c }
  const ext = Array.from({ length: chosen.length + 1 }, () => [Infinity, -Infinity, Infinity, -Infinity])
  const see = (c, x, y) => { const e = ext[c]; e[0] = Math.min(e[0], x); e[1] = Math.max(e[1], x); e[2] = Math.min(e[2], y); e[3] = Math.max(e[3], y) }
  for (const p of l.parts) { const c = col(p.row); see(c, p.x, p.y); see(c, p.x + p.w, p.y + p.h) }
  for (const e of l.edges) { const last = e.points[e.points.length - 1].y; for (const p of e.points) if (p.y <= last) see(col(p.y), p.x, p.y) }
  const crossed = ext.map((_, c) => l.edges.filter(e => col(e.points[0].y) < c && col(e.points[e.points.length - 1].y) >= c).length)
  const dx = [], dy = []; let x = 0
  ext.forEach((e, c) => { x += Math.min(60, 6 * crossed[c]); dx.push(x - e[0]); dy.push(-e[2]); x += e[1] - e[0] + 34 + (c + 1 < ext.length ? Math.min(60, 6 * crossed[c + 1]) : 0) })
  const lanes = ext.map(() => 0)
  for (const e of l.edges) {
    const a = col(e.points[0].y), z = col(e.points[e.points.length - 1].y), move = (p, c) => ({ x: p.x + dx[c], y: p.y + dy[c] })
    if (a === z) { const lc = col(e.ly); e.points = e.points.map(p => move(p, a)); e.lx += dx[lc]; e.ly += dy[lc]; continue }
    const before = e.points.filter(p => col(p.y) === a).map(p => move(p, a)), after = e.points.filter(p => col(p.y) === z).map(p => move(p, z))
    const lane = 8 + 6 * (lanes[z]++ % 10), low = Math.max(...ext.slice(a, z).map((x, i) => x[3] + dy[a + i])) + lane, gutter = ext[z][0] + dx[z] - 10 - lane, from = before[before.length - 1], to = after[0]
    e.points = [...before, { x: from.x, y: low }, { x: gutter, y: low }, { x: gutter, y: -lane }, { x: to.x, y: -lane }, ...after]
    e.lx = gutter; e.ly = (low - lane) / 2; e.turn = true; if (lane > 8) e.label = "" // there is room for one
  }
  for (const p of l.parts) { const c = col(p.row); p.x += dx[c]; p.y += dy[c] }
  return framed(l.parts, l.edges)
}
function pack(list, shape) { // parts without connection side by side, in lines
  if (list.length === 1) return list[0]
  const area = list.reduce((s, l) => s + (l.w + GAP) * (l.h + GAP), 0), wide = Math.max(Math.sqrt(area * shape), ...list.map(l => l.w))
  let x = 0, y = 0, high = 0; const parts = [], edges = []
  for (const l of list) {
    if (x > 0 && x + l.w > wide) { y += high + GAP; x = high = 0 }
    shift(l.parts, l.edges, x, y); parts.push(...l.parts); edges.push(...l.edges); x += l.w + GAP; high = Math.max(high, l.h)
  }
  return framed(parts, edges)
}

// ---- drawing
const stage = $("stage"), svg = $("graph"), view = $("view"), mini = $("mini"), line = $("line")
let scale = 1, ox = 0, oy = 0, picked, hits = new Set(), places = new Map(), drawn = [], whole = { w: 1, h: 1 }, elements = new Map()
function make(tag, attributes, into, text) { const e = document.createElementNS(SVG, tag); for (const k in attributes) e.setAttribute(k, attributes[k]); if (text !== undefined) e.textContent = text; into?.append(e); return e }
function curve(points) {
  let d = "M" + points[0].x.toFixed(1) + " " + points[0].y.toFixed(1)
  for (let i = 1; i < points.length - 1; i++) {
    const [a, p, b] = [points[i - 1], points[i], points[i + 1]], la = Math.hypot(p.x - a.x, p.y - a.y), lb = Math.hypot(b.x - p.x, b.y - p.y), r = Math.min(14, la / 2, lb / 2)
    if (!(r > 0)) continue
    d += `L${(p.x + (a.x - p.x) * r / la).toFixed(1)} ${(p.y + (a.y - p.y) * r / la).toFixed(1)}Q${p.x.toFixed(1)} ${p.y.toFixed(1)} ${(p.x + (b.x - p.x) * r / lb).toFixed(1)} ${(p.y + (b.y - p.y) * r / lb).toFixed(1)}`
  }
  const z = points[points.length - 1]; return d + "L" + z.x.toFixed(1) + " " + z.y.toFixed(1)
}
function build() {
  places = new Map(); drawn = []; elements = new Map(); view.replaceChildren()
  const l = layout(ROOT); whole = { w: l.w, h: l.h }
  level(l, 0, 0, 0, view); recolor(); marks()
}
function level(l, x, y, depth, into) {
  const boxes = make("g", {}, into), lines = make("g", {}, into), nodes = make("g", {}, into)
  for (const p of l.parts) {
    const at = { x: x + p.x, y: y + p.y, w: p.w, h: p.h, id: p.id }
    if (p.port !== undefined) { portElement(p, at, nodes); continue }
    places.set(p.id, at); drawn.push(at)
    if (!open.has(p.id)) { nodeElement(p.id, at, nodes); continue }
    const g = make("g", { class: "box" + (depth % 2 ? " odd" : "") + (sumOf(p.id).way ? " way" : ""), "data-box": ~p.id }, boxes)
    make("rect", { class: "frame", x: at.x, y: at.y, width: at.w, height: at.h }, g)
    const head = make("rect", { class: "head", x: at.x, y: at.y, width: at.w, height: HEAD }, g); head.onclick = () => toggle(p.id)
    make("title", {}, head, "Close " + title(p.id))
    make("text", { class: "name head-text", x: at.x + 24, y: at.y + 17 }, g, title(p.id)); make("text", { class: "sub", x: at.x + 9, y: at.y + 17 }, g, "▾")
    make("text", { class: "sub", x: at.x + at.w - 10, y: at.y + 17, "text-anchor": "end" }, g, calls(p.id) + " calls" + wrongText(p.id))
    elements.set(p.id, g); level(layout(p.id), at.x + PAD, at.y + HEAD, depth + 1, boxes)
  }
  for (const e of l.edges) edgeElement(e, e.points.map(p => ({ x: p.x + x, y: p.y + y })), e.lx + x, e.ly + y, lines)
  for (const e of l.far) {
    const a = places.get(e.from), z = places.get(e.to); if (!a || !z) continue
    const p = { x: a.x + a.w / 2, y: a.y + a.h }, q = { x: z.x + z.w / 2, y: z.y }
    edgeElement({ ...e, far: true }, [p, { x: p.x, y: p.y + 16 }, { x: q.x, y: q.y - 16 }, q], 0, 0, lines)
  }
}
const wrongText = i => { const n = sumOf(i).wrong; return n ? ", " + n + " wrong" : "" }
function nodeElement(i, at, into) {
  const s = sumOf(i), n = N[i], g = make("g", { class: "node" + (i < 0 ? " shut" : "") + (s.way ? " way" : "") + (s.faults ? " fault" : "") + (s.apart ? " apart" : ""), transform: `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`, ...(i < 0 ? { "data-box": ~i } : { "data-call": i }) }, into)
  make("rect", { class: "body", width: at.w, height: at.h }, g); make("rect", { class: "bar1", x: 3, y: 5, width: 4, height: at.h - 10 }, g)
  if (s.backward) make("rect", { class: "bar2", x: at.w - 7, y: 5, width: 4, height: at.h - 10 }, g)
  make("text", { class: "name" + (i < 0 ? " head-text" : ""), x: 13, y: 17 }, g, (i < 0 ? "▸ " : "") + title(i))
  make("text", { class: "sub", x: 13, y: 32 }, g, i < 0 ? calls(i) + " calls" + wrongText(i) : dims((n.dtype || "") + " " + (n.shape || "")) + (role(i) ? "  " + role(i) : ""))
  make("title", {}, g, i < 0 ? title(i) + ": " + calls(i) + " calls" + wrongText(i) + ". Click to open." : n.op + "/" + n.id + (n.module ? " of " + n.module : "") + ": forward " + n.verdict + (n.backward ? ", gradients " + n.backward : ""))
  g.onclick = () => { if (moved) return; if (i < 0) toggle(i); else pick(i) }
  elements.set(i, g)
}
function portElement(p, at, into) {
  const g = make("g", { class: "port", transform: `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})` }, into)
  make("rect", { width: at.w, height: at.h }, g); make("text", { class: "sub", x: 8, y: 13 }, g, p.text); make("title", {}, g, "Go to " + N[p.port].op + "/" + N[p.port].id)
  g.onclick = () => { if (!moved) pick(p.port, true) }
}
function edgeElement(e, points, lx, ly, into) {
  const f = e.of.reduce((m, k) => Math.max(m, size(N[E[k].from].effect)), 0), of = e.of.map(k => E[k])
  const p = make("path", { class: "edge" + (e.far ? " far" : "") + (of.some(x => x.how === "changed") ? " changed" : "") + (of.some(x => x.way) ? " way" : ""), d: curve(points), "stroke-width": (1.1 + (most ? 3 * Math.sqrt(Math.min(1, f / most)) : 0)).toFixed(1), "data-from": [...new Set(of.map(x => x.from))].join(" "), "data-to": [...new Set(of.map(x => x.to))].join(" ") }, into)
  make("title", {}, p, of.slice(0, 12).map(x => name(N[x.from]) + " → " + x.target + " of " + name(N[x.to]) + ": " + dims(x.type) + " (by " + x.how + ")").join("\n") + (of.length > 12 ? "\nand " + (of.length - 12) + " more" : ""))
  if (!e.far) { const t = make("text", { class: "edge-label", x: lx.toFixed(1), y: (ly + 3).toFixed(1) }, into, e.label); if (e.turn) t.setAttribute("transform", `rotate(-90 ${lx.toFixed(1)} ${ly.toFixed(1)})`) }
}
function recolor() {
  for (const [i, g] of elements) {
    if (g.classList.contains("box")) continue
    const s = sumOf(i); g.querySelector(".body").style.fill = fillOf(i); g.querySelector(".bar1").style.fill = paint(i < 0 ? boxVerdict(s.forward) : s.forward)
    const b = g.querySelector(".bar2"); if (b) b.style.fill = paint(i < 0 ? boxVerdict(s.backward) : s.backward)
  }
  const l = $("legend"); l.replaceChildren()
  const key = (c, text) => { const s = el("span", undefined, l); el("i", undefined, s).style.background = c; s.append(text) }
  if (coloring === "verdict") for (const [v, text] of [["pass", "pass"], ["warn", "warn"], ["fail", "fail"], ["error", "could not be run"], ["mistrusted", "mistrusted: proves little"], ["skipped", N.some(n => n.verdict === "unsupported" || n.backward === "unsupported") ? "skipped or unsupported: not compared" : "skipped: not compared"]]) { if (N.some(n => [n.verdict, n.backward].some(x => x && paint(x) === paint(v)))) key(paint(v), text) }
  else { const c = { local: "local", total: "total", effect: "way" }[coloring]; key("var(--bg)", coloring === "effect" ? "none" : "≤ 1e-9"); key(`color-mix(in srgb, var(--${c}) 50%, var(--bg))`, coloring === "effect" ? "1e-3 of the largest" : "3e-5"); key(`var(--${c})`, coloring === "effect" ? show(most, 2) : "≥ 1") }
  if (N.some(n => n.backward)) el("span", "left bar: results, right bar: gradients", l)
  const outline = (cls, text) => { el("i", undefined, el("span", undefined, l)).className = cls; l.lastChild.append(text) }
  if ([...faults.keys()].some(k => !apart.has(k))) outline("fault", "fault found here")
  if (apart.size) outline("apart", "changed between these calls")
  if (way.size) key("var(--way)", "way to the loss")
  drawMini()
}
function marks() { // what is picked and found
  for (const e of view.querySelectorAll(".picked, .hit, .hot")) e.classList.remove("picked", "hit", "hot")
  elements.get(picked)?.classList.add("picked")
  if (hits.size) for (const [i, g] of elements) if (!open.has(i)) for (let k = first(i); k < first(i) + calls(i); k++) if (hits.has(k)) { g.classList.add("hit"); break }
  if (picked >= 0) { const s = String(picked); for (const p of view.querySelectorAll(".edge")) if (p.dataset.from.split(" ").includes(s) || p.dataset.to.split(" ").includes(s)) p.classList.add("hot") }
}
let due = false
function place() {
  view.setAttribute("transform", `translate(${ox.toFixed(1)} ${oy.toFixed(1)}) scale(${scale.toFixed(4)})`); svg.classList.toggle("small", scale < 0.5); svg.classList.toggle("tiny", scale < 0.22)
  if (!due) { due = true; requestAnimationFrame(() => { due = false; drawMini(); drawLine() }) }
}
function canvas(c) { const r = devicePixelRatio || 1, w = c.clientWidth, h = c.clientHeight, x = c.getContext("2d"); if (c.width !== Math.round(w * r) || c.height !== Math.round(h * r)) { c.width = Math.round(w * r); c.height = Math.round(h * r) } x.setTransform(r, 0, 0, r, 0, 0); x.clearRect(0, 0, w, h); return [x, w, h] }
const css = v => getComputedStyle(document.documentElement).getPropertyValue(v.replace(/var\((.*)\)/, "$1")).trim()
function drawMini() {
  const seen = ox >= 0 && oy >= 0 && ox + whole.w * scale <= stage.clientWidth && oy + whole.h * scale <= stage.clientHeight
  mini.classList.toggle("all", seen); if (seen) return
  const [x, w, h] = canvas(mini), s = Math.min((w - 8) / whole.w, (h - 8) / whole.h), dx = (w - whole.w * s) / 2, dy = (h - whole.h * s) / 2, palette = {}
  const color = v => palette[v] ||= css(v)
  for (const p of drawn) {
    const s1 = sumOf(p.id), isOpen = open.has(p.id)
    x.globalAlpha = isOpen ? 0.5 : 1; x.fillStyle = isOpen ? color("--line") : s1.faults || s1.apart ? color("--fail") : s1.way ? color("--way") : color(paint(p.id < 0 ? boxVerdict(s1.forward) : s1.forward))
    x.fillRect(dx + p.x * s, dy + p.y * s, Math.max(1.5, p.w * s), Math.max(1.5, p.h * s))
  }
  x.globalAlpha = 1; x.strokeStyle = color("--pick"); x.lineWidth = 1.5; x.strokeRect(dx - ox / scale * s, dy - oy / scale * s, stage.clientWidth / scale * s, stage.clientHeight / scale * s)
  mini.to = (px, py) => { ox = stage.clientWidth / 2 - (px - dx) / s * scale; oy = stage.clientHeight / 2 - (py - dy) / s * scale; place() }
}
// The calls that the window shows, as a range of the execution.
function range() {
  let lo = Infinity, hi = -Infinity; const x0 = -ox / scale, y0 = -oy / scale, x1 = x0 + stage.clientWidth / scale, y1 = y0 + stage.clientHeight / scale
  for (const p of drawn) if (!open.has(p.id) && p.x < x1 && p.x + p.w > x0 && p.y < y1 && p.y + p.h > y0) { lo = Math.min(lo, first(p.id)); hi = Math.max(hi, first(p.id) + calls(p.id) - 1) }
  return hi < lo ? [0, N.length - 1] : [lo, Math.max(hi, Math.min(N.length - 1, lo + 8))]
}
const series = [["total_error", "--total", "total error"], ["local_error", "--local", "local error"]]
let decades = [0, -18]
for (const [k] of series) for (const n of N) { const v = num(n[k]); if (v > 0 && Number.isFinite(v)) decades = [Math.min(decades[0], Math.log10(v)), Math.max(decades[1], Math.log10(v))] }
function drawLine() {
  const [x, w, h] = canvas(line), left = 44, top = 22, low = h - 18, inner = w - left - 10, [from, to] = range()
  const hi = Math.max(Math.ceil(decades[1]), -17), lo = Math.min(hi - 1, Math.max(Math.floor(decades[0]), hi - 9, -18))
  const X = i => left + (to === from ? 0.5 : (i - from) / (to - from)) * inner, Y = v => top + (hi - Math.max(lo, Math.min(hi, Math.log10(v)))) / (hi - lo) * (low - top)
  x.font = "11px system-ui, sans-serif"; x.textBaseline = "middle"; x.strokeStyle = css("--line"); x.fillStyle = css("--dim")
  const every = Math.max(1, Math.ceil((hi - lo) / 4))
  for (let d = lo; d <= hi; d += every) { const y = Y(10 ** d); x.beginPath(); x.moveTo(left, y); x.lineTo(w - 10, y); x.stroke(); x.fillText("1e" + d, 6, y) }
  x.textBaseline = "alphabetic"; x.fillText(from <= 0 ? "first call" : name(N[from]), left, h - 4); x.textAlign = "right"; x.fillText(to >= N.length - 1 ? "last call" : name(N[to]), w - 10, h - 4)
  x.textAlign = "center"; x.fillText(w < 640 ? "calls in order →" : "calls of the window in order of execution →", left + inner / 2, h - 4); x.textAlign = "left"
  x.save(); x.beginPath(); x.rect(left - 1, 0, inner + 2, h); x.clip()
  if (most) { x.fillStyle = css("--skipped"); x.globalAlpha = .6; for (let i = from; i <= to; i++) { const f = size(N[i].effect); if (f) { const bar = Math.sqrt(f / most) * (low - top); const wide = Math.min(24, Math.max(2, inner / Math.max(1, to - from) * .6)); x.fillRect(X(i) - wide / 2, low - bar, wide, bar) } } x.globalAlpha = 1 }
  for (const [k, c] of series) { // calls without an error, or of which it is not known, have no point: the line joins those on both sides
    x.strokeStyle = x.fillStyle = css(c); x.lineWidth = 1.5; x.beginPath(); let begun = false
    const bin = Math.max(1, Math.floor((to - from) / inner)) // the largest of the calls that share a pixel
    for (let i = from; i <= to; i += bin) {
      let v = 0; for (let j = i; j < Math.min(to + 1, i + bin); j++) { const y = num(N[j][k]); if (y > v) v = y }
      if (!(v > 0)) continue
      const px = X(i), py = Y(v); if (begun) x.lineTo(px, py); else x.moveTo(px, py); begun = true
      if ((to - from) * 12 < inner) { x.moveTo(px + 2, py); x.arc(px, py, 2, 0, 7); x.moveTo(px, py) }
    }
    x.stroke()
  }
  const upright = (i, c, wide) => { x.strokeStyle = css(c); x.lineWidth = wide; x.beginPath(); x.moveTo(X(i), top - 6); x.lineTo(X(i), low); x.stroke() }
  for (const i of faults.keys()) upright(i, "--fail", 1.5)
  if (picked >= 0) upright(picked, "--pick", 2)
  x.restore()
  let kx = left; x.textBaseline = "top"
  for (const [, c, text] of series) { x.fillStyle = css(c); x.fillRect(kx, 9, 14, 3); x.fillText(text, kx + 18, 4); kx += 100 }
  x.fillStyle = css("--dim"); const bars = most ? "bars: " + G.effect_title : ""; x.fillText(w < 640 ? bars : "relative to the exact results, logarithmic" + (most ? "; " + bars : ""), kx, 4)
  // Where the window is in the whole run.
  x.fillStyle = css("--line"); x.fillRect(left, 0, inner, 3); x.fillStyle = css("--pick"); const all = Math.max(1, N.length - 1); x.fillRect(left + from / all * inner, 0, Math.max(3, (to - from) / all * inner), 3)
  line.at = px => Math.round(from + Math.max(0, Math.min(1, (px - left) / inner)) * (to - from))
}

// ---- moving
function zoom(f, x = stage.clientWidth / 2, y = stage.clientHeight / 2) { const s = Math.max(0.02, Math.min(3, scale * f)); ox = x - (x - ox) * s / scale; oy = y - (y - oy) * s / scale; scale = s; place() }
let fitted // the scale at which everything was shown
function fit() { const m = 18; scale = Math.min((stage.clientWidth - 2 * m) / whole.w, (stage.clientHeight - 2 * m) / whole.h, 1.6); ox = (stage.clientWidth - whole.w * scale) / 2; oy = (stage.clientHeight - whole.h * scale) / 2; fitted = scale; place() }
// Moves to where the window shows most, the earliest of such places.
function fullest() {
  const w = stage.clientWidth / 2 / lowest, h = stage.clientHeight / 2 / lowest, all = drawn.filter(p => !open.has(p.id)).sort((a, b) => first(a.id) - first(b.id)).slice(0, 500); let best, most = 0
  for (const p of all) { let n = 0; for (const q of all) if (Math.abs(q.x + q.w / 2 - p.x - p.w / 2) < w && Math.abs(q.y - p.y) < h) n++; if (n > most * 1.15) { most = n; best = p } }
  if (best) center(best.id, lowest)
}
const lowest = 0.85 // a scale at which names can be read
function center(i, s = Math.max(scale, lowest)) { const p = places.get(i); if (!p) return; scale = s; ox = stage.clientWidth / 2 - (p.x + Math.min(p.w, 400) / 2) * s; oy = stage.clientHeight / 2 - (p.y + Math.min(p.h, 300) / 2) * s; bound(); place() }
// No more is left blank beside the graph than has to be.
function bound() { const keep = (o, room, size) => size <= room - 36 ? (room - size) / 2 : Math.min(18, Math.max(room - size - 18, o)); ox = keep(ox, stage.clientWidth, whole.w * scale); oy = keep(oy, stage.clientHeight, whole.h * scale) }
function relaid(i) { // the box stays where it was in the window
  const before = places.get(i), x = before && before.x * scale + ox, y = before && before.y * scale + oy
  for (let c = i; ; c = parent(c)) { laid.delete(c); if (c === ROOT) break }
  build(); const p = places.get(i)
  if (before && p) { ox = x - p.x * scale; oy = y - p.y * scale }
  place()
}
function toggle(i) { if (moved) return; if (open.has(i)) open.delete(i); else open.add(i); relaid(i) }
function reveal(i) { let changed = false; for (let c = parent(i); c !== ROOT; c = parent(c)) if (!open.has(c)) { open.add(c); changed = true } if (changed) { laid.clear(); build() } return changed }
// Opens outer boxes first, as long as there are not too many things to see: those of like names together. What
// has most of the calls is opened anyway, and one box where there would be little to see; what follows the loss is not.
function openSome(most) {
  let seen = 0, todo = children.get(ROOT); const end = G.losses?.length ? Math.max(...G.losses.map(l => l.node)) : N.length
  const visible = c => children.get(c).forEach(k => { if (open.has(k)) visible(k); else seen++ }); visible(ROOT)
  while (todo.length) {
    const kinds = new Map(), next = []
    for (const i of todo) if (i < 0 && first(i) <= end) { const kind = parent(i) + title(i).replace(/\d+/g, ""); if (!kinds.has(kind)) kinds.set(kind, []); kinds.get(kind).push(i) }
    for (const like of kinds.values()) {
      const shut = like.filter(i => !open.has(i)), more = shut.reduce((n, i) => n + children.get(i).length - 1, 0)
      if (seen + more <= most || like.length === 1 && calls(like[0]) > N.length / 2) { shut.forEach(i => open.add(i)); seen += more }
      else if (seen < 12 && shut.length === like.length) { open.add(shut[0]); seen += children.get(shut[0]).length - 1 }
      next.push(...like.filter(i => open.has(i)).flatMap(i => children.get(i)))
    }
    todo = next
  }
}
const pointers = new Map(); let start = null, moved = false
svg.onpointerdown = e => { pointers.set(e.pointerId, [e.clientX, e.clientY]); moved = false; start = { ox, oy, x: e.clientX, y: e.clientY, d: 0 } }
svg.onpointermove = e => {
  if (!pointers.has(e.pointerId)) return
  if (pointers.size === 2) { // pinch
    const old = [...pointers.values()], d0 = Math.hypot(old[0][0] - old[1][0], old[0][1] - old[1][1]); pointers.set(e.pointerId, [e.clientX, e.clientY])
    const now = [...pointers.values()], d1 = Math.hypot(now[0][0] - now[1][0], now[0][1] - now[1][1]), r = svg.getBoundingClientRect(); moved = true
    if (d0 > 0) zoom(d1 / d0, (now[0][0] + now[1][0]) / 2 - r.left, (now[0][1] + now[1][1]) / 2 - r.top); return
  }
  const dx = e.clientX - start.x, dy = e.clientY - start.y
  if (!moved && Math.hypot(dx, dy) > 4) { moved = true; svg.setPointerCapture(e.pointerId) }
  if (moved) { ox = start.ox + dx; oy = start.oy + dy; place() }
}
svg.onpointerup = svg.onpointercancel = e => { pointers.delete(e.pointerId); const p = [...pointers.values()][0]; if (p) start = { ox, oy, x: p[0], y: p[1] } }
svg.addEventListener("wheel", e => { e.preventDefault(); const r = svg.getBoundingClientRect(); zoom(Math.exp(-e.deltaY * 0.0015), e.clientX - r.left, e.clientY - r.top) }, { passive: false })
mini.onpointerdown = mini.onpointermove = e => { if (e.buttons && mini.to) { const r = mini.getBoundingClientRect(); mini.to(e.clientX - r.left, e.clientY - r.top) } }
line.onclick = e => pick(line.at(e.clientX - line.getBoundingClientRect().left), true)
function along(i, down) { const ks = down ? N[i].out : N[i].in; if (!ks.length) return i; const on = ks.find(k => E[k].way) ?? ks[0]; return down ? E[on].to : E[on].from }
let nextFinding = 0
const keys = {
  ArrowDown: () => pick(picked >= 0 ? along(picked, true) : 0, true), ArrowUp: () => pick(picked >= 0 ? along(picked, false) : 0, true),
  ArrowRight: () => pick(Math.min(N.length - 1, (picked >= 0 ? picked : -1) + 1), true), ArrowLeft: () => pick(Math.max(0, (picked >= 0 ? picked : 1) - 1), true),
  Enter: () => { const c = picked === undefined ? ROOT : parent(picked); if (c !== ROOT) { toggle(c); center(c) } }, f: fit, "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8),
  o: () => { const before = open.size, seen = drawn.length; openSome(seen * 3 + 60); if (open.size > before) { laid.clear(); build(); fit() } },
  c: () => { open.clear(); openSome(0); laid.clear(); build(); fit() }, w: () => { for (const i of way) for (let c = parent(i); c !== ROOT; c = parent(c)) open.add(c); laid.clear(); build(); if (way.size) center(G.way[0]) },
  e: () => { const fs = [...heads, ...G.findings.filter(f => f.like !== undefined)].filter(f => f.node >= 0); if (fs.length) pick(fs[nextFinding++ % fs.length].node, true) },
  "/": () => $("find").focus(), "?": () => $("keys").showModal(), Escape: () => pick(undefined),
}
addEventListener("keydown", e => { if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|BUTTON|A)$/.test(e.target.tagName) || $("keys").open) return; const f = keys[e.key]; if (f) { e.preventDefault(); moved = false; f() } })
$("fit").onclick = fit; $("in").onclick = () => zoom(1.5); $("out").onclick = () => zoom(1 / 1.5); $("expand").onclick = keys.o; $("collapse").onclick = keys.c; $("help").onclick = keys["?"]
const effects = $("color").querySelector("[value=effect]"); if (most) effects.textContent = G.effect_title; else effects.remove()
$("color").onchange = e => { coloring = e.target.value; recolor() }

// ---- search
let at = -1
function search() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean), list = $("hits"); hits = new Set(); at = -1; list.replaceChildren()
  if (words.length) N.forEach((n, i) => { const text = [n.op + "/" + n.id, n.module, n.location, n.dtype, n.shape, dims(n.shape), n.verdict, n.backward, n.capture].join(" ").toLowerCase(); if (words.every(w => text.includes(w))) hits.add(i) })
  const best = [...hits].sort((a, b) => exact(b) - exact(a) || a - b); function exact(i) { return words.includes(String(N[i].id)) || words.includes(name(N[i]).toLowerCase()) || words.includes(short(N[i].op).toLowerCase()) ? 1 : 0 }
  best.slice(0, 40).forEach(i => { const b = el("button", name(N[i]) + "  ", list); b.setAttribute("role", "option"); el("span", [dims((N[i].dtype || "") + " " + (N[i].shape || "")), N[i].module].filter(Boolean).join(", "), b, "dim"); b.onclick = () => { list.replaceChildren(); pick(i, true) } })
  if (words.length) el("p", hits.size > 40 ? hits.size + " calls; the first 40 are listed, all are marked" : hits.size ? hits.size + (hits.size === 1 ? " call" : " calls") : "no such call", list)
  marks()
}
$("find").oninput = search
$("find").onkeydown = e => {
  const all = [...$("hits").querySelectorAll("button")]
  if (e.key === "Escape") { $("find").value = ""; search(); svg.focus(); return }
  if (e.key === "Enter" && all.length) { all[Math.max(0, at)].click(); svg.focus(); return }
  const d = { ArrowDown: 1, ArrowUp: -1 }[e.key]; if (!d || !all.length) return
  e.preventDefault(); all[at]?.classList.remove("at"); at = (at + d + all.length) % all.length; all[at].classList.add("at"); all[at].scrollIntoView({ block: "nearest" })
}
addEventListener("pointerdown", e => { if (!e.target.closest(".search")) $("hits").replaceChildren() })

// ---- the side
function el(tag, text, parent, cls) { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; if (parent) parent.append(e); return e }
function link(i, text, parent) { const a = el("a", text || name(N[i]), parent); a.tabIndex = 0; a.onclick = () => pick(i, true); a.onkeydown = ev => { if (ev.key === "Enter") pick(i, true) }; return a }
const unreliable = "an estimate from the gradient. It is unreliable, since the error is large: the loss may move by more or less, and the other way."
// What is between calls is the fault of neither.
function aside(f, into) {
  if (!f.between) return
  const d = el("div", "It is no fault of this operator, but between ", into)
  if (f.from === undefined) d.append(f.between); else { link(f.from, undefined, d); d.append(" and "); link(f.node, undefined, d) }
}
function overview() {
  const s = $("side"); s.replaceChildren()
  el("h2", heads.length ? "Findings" : "No findings", s)
  heads.slice(0, 50).forEach(f => {
    const d = el("div", undefined, s, "finding" + (isWarning(f) ? " warn" : "")); el("strong", f.rule + " ", d); if (f.node >= 0) link(f.node, name(N[f.node]) + " " + f.target, d)
    aside(f, d); el("div", f.reason, d); if (f.note) el("div", f.note, d)
    if (N[f.node]?.location) el("div", N[f.node].location, d, "dim")
    const like = likes(f).filter(g => g.node >= 0); if (!like.length) return
    const p = el("div", "like it: ", d); like.slice(0, 8).forEach((g, i) => { if (i) p.append(", "); link(g.node, undefined, p) }); if (like.length > 8) p.append(" and " + (like.length - 8) + " more")
  })
  if (heads.length > 50) el("p", "and " + (heads.length - 50) + " more", s, "dim")
  if (G.faults?.length) {
    el("h2", G.faults_title, s); const t = el("table", undefined, s), [titles, ...rows] = G.faults
    for (const row of rows) { const c = el("td", undefined, el("tr", undefined, t)); el("strong", row[0], c); row.slice(1).forEach((x, i) => { if (x) el("div", titles[i + 1] + ": " + x, c) }) }
  }
  if (G.send) { el("h2", "Pass it on", s); command(G.send, s); el("p", G.send_text, s, "dim") }
  if (G.unjudged?.length) { el("h2", "Not judged", s); for (const line of G.unjudged) el("p", line, s) }
  if (G.effects?.length) { el("h2", "Effect on the loss", s); for (const line of G.effects) el("p", line, s) }
  strip(s); bars(s)
  const large = N.map((n, i) => [size(n.effect), i]).filter(([f]) => f > 0).sort((a, b) => b[0] - a[0]).slice(0, 15)
  if (large.length) { el("h2", "Largest: " + G.effect_title, s); const big = el("ul", undefined, s); large.forEach(([, i]) => { const li = el("li", undefined, big); link(i, undefined, li); el("span", " " + effectOf(N[i], 3) + " " + (N[i].dtype || ""), li, "dim") }); if (large.some(([, i]) => N[i].effect_unreliable)) el("p", "about: " + unreliable, s, "dim") }
  el("p", "Click a box to open it, a call for its values. Drag to move, wheel or pinch to zoom. Press ? for keys.", s, "dim")
}
// Tokens of two runs, coloured by what their log-probabilities differ by; a click shows the calls that explain one.
function strip(s) {
  if (!G.tokens) return
  el("h2", "Tokens", s); const note = el("p", undefined, s, "dim"), row = el("div", undefined, s, "strip"), said = el("div", undefined, s, "said")
  note.textContent = "Blue: this run gives the token more probability. Red: the other run does. Click a token for the calls that explain it."
  const top = G.tokens.reduce((m, t) => Math.max(m, size(t.value)), 0)
  G.tokens.forEach(t => {
    const b = el("button", String(t.id), row), v = num(t.value); b.title = t.text; b.style.background = "color-mix(in srgb, " + (v < 0 ? "var(--fail) " : "var(--local) ") + (top ? 100 * size(t.value) / top : 0) + "%, transparent)"
    b.onclick = () => { said.replaceChildren(); el("p", t.text, said); const ul = el("ul", undefined, said); t.nodes.forEach(i => { if (i >= 0) link(i, undefined, el("li", undefined, ul)) }); t.other.forEach(c => el("li", "other run: " + c, ul, "dim")) }
  })
}
// Operators and what their errors do alone.
function bars(s) {
  if (!G.bars) return
  el("h2", G.bars_title, s); const top = G.bars.reduce((m, b) => Math.max(m, num(b.value) || 0), 0)
  G.bars.slice(0, 20).forEach(b => { const d = el("div", undefined, s, "share"); if (b.node >= 0) link(b.node, b.name, d); else el("span", b.name, d); el("span", " " + show(b.value, 3), d, "dim"); const i = el("i", undefined, d); i.style.width = (top ? 100 * num(b.value) / top : 0) + "%" })
}
function command(text, into) { const d = el("div", undefined, into, "cmd"); el("code", text, d); const b = el("button", "copy", d); b.onclick = () => { const t = el("textarea", undefined, d); t.value = text; t.select(); document.execCommand("copy"); t.remove(); b.textContent = "copied" } }
function chip(v, into) { const c = el("span", v, into, "chip"); c.style.borderColor = paint(v); c.style.background = "color-mix(in srgb, " + paint(v) + " 22%, transparent)"; return c }
const element = x => typeof x === "number" ? String(Number(x.toPrecision(9))) : String(x)
function page(i) {
  const n = N[i], s = $("side"), row = (k, v) => { if (v === undefined || v === "" || v === null) return; el("dt", k, dl); return el("dd", v, dl) }
  s.replaceChildren(); const a = el("a", "overview", el("p", undefined, s)); a.tabIndex = 0; a.onclick = () => pick(undefined)
  const h = el("h2", n.op + "/" + n.id + " ", s); chip(worse(n.verdict, n.backward || n.verdict), h)
  for (const f of G.findings) if (f.node === i) { const d = el("div", undefined, s, "finding" + (isWarning(f) ? " warn" : "")); el("strong", f.rule + " " + f.target + ": ", d); d.append(f.reason); aside(f, d); if (f.note) el("div", f.note, d); if (f.parameter) el("div", "parameter " + f.parameter, d) }
  const dl = el("dl", undefined, s)
  row("module", n.module); row("line", n.location)
  if (![...G.findings].some(f => f.node === i)) row("why", n.reason)
  row("on the device", n.device)
  const moved = G.findings.filter(f => f.node === i && f.effect)
  if (moved.length) { row(G.effect_title, moved[0].effect); row("effect of the errors of its results", effectOf(n)) } else row(G.effect_title, effectOf(n))
  if (n.effect_unreliable) el("div", unreliable, dl.lastChild, "dim")
  row("local error", show(n.local_error, 3)); row("total error", show(n.total_error, 3)); el("dt", "capture", dl); el("code", n.capture, el("dd", undefined, dl))
  if (n.repro) { el("h2", "Run it again", s); command(n.repro, s) }
  el("h2", "Values and bounds", s); const t = el("table", undefined, s)
  if (!n.values?.length) el("p", worse(n.verdict, n.backward || n.verdict) === "pass" ? "its results were judged as a whole, not value by value" : "nothing was compared", s, "dim")
  for (const v of n.values || []) {
    const r = el("tr", undefined, t), c = el("td", undefined, r); el("strong", v.target, c); el("div", dims(v.type), c, "dim")
    const d = el("td", undefined, r); chip(v.verdict, d)
    const ratio = num(v.bound_ratio), ulp = num(v.max_ulp)
    if (ratio > 0) d.append(" " + (ratio > 1 ? show(ratio, 3) + " times its bound" : Math.max(1, Math.round(100 * ratio)) + "% of its bound"))
    else if (!Number.isNaN(ulp) && !ulp) d.append(" equal")
    const worst = num(v.worst_ulp), off = worst > 0 ? show(worst, 4) + " ulp" : ""
    if (v.actual !== undefined && v.actual !== null) el("div", "got " + element(v.actual) + ", expected " + element(v.expected) + (off && " (" + off + ")"), d)
    else if (off) el("div", "worst element " + off, d, "dim")
  }
  el("h2", "Reads", s); const ins = el("ul", undefined, s)
  n.in.forEach(k => { const e = E[k], li = el("li", e.target + " from ", ins); link(e.from, undefined, li); el("span", " " + dims(e.type) + ", linked by " + e.how, li, "dim") }); (n.leaves || []).forEach(x => el("li", dims(x), ins, "dim"))
  if (n.out.length) { el("h2", "Read by", s); const outs = el("ul", undefined, s); n.out.forEach(k => { const e = E[k], li = el("li", undefined, outs); link(e.to, undefined, li); el("span", " " + e.target + ", " + dims(e.type), li, "dim") }) }
  s.scrollTop = 0
}
// pick shows a call; go opens the boxes that it is in and moves there.
function pick(i, go) {
  picked = i; if (i === undefined) overview(); else { page(i); if (go) { reveal(i); center(i) } }
  marks(); place()
}

// A button for each kind of findings.
const jumps = heads.filter(f => f.node >= 0), most_jumps = 6
jumps.slice(0, most_jumps).forEach(f => { const n = likes(f).length, b = el("button", f.rule + ": " + (f.from === undefined ? "" : "between " + name(N[f.from]) + " and ") + name(N[f.node]) + (n ? " and " + n + " more" : ""), $("jump")); b.classList.toggle("warn", isWarning(f)); b.onclick = () => pick(f.node, true) })
if (jumps.length > most_jumps) el("button", "and " + (jumps.length - most_jumps) + " more kinds", $("jump")).onclick = () => pick(undefined)
$("losses").textContent = (G.effect_of_fault ? G.effect_of_fault[0].toUpperCase() + G.effect_of_fault.slice(1) + ". " : "") + N.length + (N.length === 1 ? " call. " : " calls. ") + (G.losses || []).slice(0, 4).map(l => "Loss " + show(l.captured, 9) + " recorded, " + show(l.exact, 9) + " exact, difference " + show(num(l.captured) - num(l.exact), 3) + " (" + name(N[l.node]) + ")").join("; ")
addEventListener("resize", () => { if (scale === fitted) fit(); else { bound(); place() } })
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { recolor(); place() })
const fault = G.findings.find(f => f.node >= 0)
if (fault) for (let c = parent(fault.node); c !== ROOT; c = parent(c)) open.add(c)
openSome(phone() ? 40 : 90); build(); fit()
if (scale < 0.7) { if (fault) center(fault.node, Math.max(lowest, 1)); else fullest() }
if (fault && !G.bars && heads.length === 1) pick(fault.node); else pick(undefined) // the overview has all kinds of findings
drawMini(); drawLine()
document.body.dataset.ready = Math.round(performance.now()) // milliseconds until it can be used
