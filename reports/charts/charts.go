// Package charts draws what runs found as SVG that stands in a page: no script, no
// font and no file of its own. The page gives the colours: classes fill-VERDICT,
// shade-0 to shade-9, axis, grid and mark.
package charts

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// width of a chart of a whole page, in its own units, which are pixels where the page is
// wide enough.
const width = 1000

// A picture collects the elements of an SVG.
type picture struct {
	b             strings.Builder
	width, height float64
}

func (p *picture) add(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

// text puts a text at a place; anchor is start, middle or end.
func (p *picture) text(x, y float64, anchor, s string) {
	p.add(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(reports.OneLine(s)))
}

// rect is a rectangle of a class that says what it is when pointed at, and leads to
// href if that is not empty.
func (p *picture) rect(x, y, w, h float64, class, title, href string) {
	if href != "" {
		p.add(`<a href="%s">`, html.EscapeString(href))
	}
	p.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"><title>%s</title></rect>`, x, y, w, h,
		class, html.EscapeString(reports.OneLine(title)))
	if href != "" {
		p.add(`</a>`)
	}
}

func (p *picture) line(x1, y1, x2, y2 float64, class string) {
	p.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

// svg is the picture with a name for those who do not see it.
func (p *picture) svg(class, name string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="chart %s" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" `+
		`role="img" aria-label="%s">%s</svg>`, class, p.width, p.height, p.width, p.height,
		html.EscapeString(name), p.b.String()))
}

// tail is the end of a text that is longer than n characters, from a dot on if it can be.
func tail(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	end := string(r[len(r)-n+1:])
	if _, after, found := strings.Cut(end, "."); found {
		end = after
	}
	return "…" + end
}

const (
	labels    = 230 // room for names on the left
	laneTall  = 18
	maxLanes  = 64
	maxCells  = 380
	axisTall  = 26
	maxMargin = 60 // ops whose margins are drawn
)

// A mark is what a chart shows of a result.
type mark struct {
	title   string
	capture string
	verdict verdict.Verdict
	ratio   float64 // of its bound
}

// worse reports whether a verdict is to be shown in place of m, if there is one.
func (m *mark) worse(v verdict.Verdict) bool { return m == nil || rank(v) > rank(m.verdict) }

// rank is the place of a verdict among all.
func rank(v verdict.Verdict) float64 {
	if v == reports.ReadsOtherValues {
		return float64(verdict.Warn.Rank()) + 0.5
	}
	return float64(v.Rank())
}

// A lane is a process in one phase. Processes of several folders may have one number.
type lane struct {
	folder   string
	name     string // within its folder
	rank     int
	pid      int
	backward bool
	cells    []*mark
}

func compareLanes(a, b *lane) int {
	return cmp.Or(cmp.Compare(a.folder, b.folder), cmp.Compare(a.rank, b.rank), cmp.Compare(a.pid, b.pid),
		cmp.Compare(side(a.backward), side(b.backward)))
}

// A Timeline is the calls of each process in order, its forward passes above its
// backward passes, which ran from right to left: the worst result of each place in its
// colour.
type Timeline struct {
	last  int // position of a call
	lanes map[laneKey]*lane
	left  map[laneKey]bool // lanes that are not drawn
}

// A laneKey is the folder and the name of a lane.
type laneKey struct{ folder, name string }

func (l *lane) key() laneKey { return laneKey{l.folder, l.name} }

// NewTimeline returns a timeline of calls at positions up to last.
func NewTimeline(last int) *Timeline {
	return &Timeline{last: last, lanes: map[laneKey]*lane{}, left: map[laneKey]bool{}}
}

// Add adds a result, whose verdict is shown as v; one whose position is not known is passed over.
func (t *Timeline) Add(r *reports.Result, v verdict.Verdict) {
	if r.Order == nil || *r.Order < 0 || *r.Order > t.last {
		return
	}
	l := newLane(r)
	if t.lanes[l.key()] == nil && !t.begin(l) {
		return
	}
	at := &t.lanes[l.key()].cells[*r.Order*t.cells()/(t.last+1)]
	if (*at).worse(v) {
		*at = &mark{title: r.Title() + ": " + strings.TrimSpace(r.Target+" "+string(v)), capture: r.Capture, verdict: v}
	}
}

// begin begins a lane, unless there are as many as are drawn and it would be the last.
func (t *Timeline) begin(l *lane) bool {
	if len(t.lanes) == maxLanes {
		last := slices.MaxFunc(slices.Collect(maps.Values(t.lanes)), compareLanes)
		if compareLanes(l, last) > 0 {
			t.left[l.key()] = true
			return false
		}
		delete(t.lanes, last.key())
		t.left[last.key()] = true
	}
	l.cells = make([]*mark, t.cells())
	t.lanes[l.key()] = l
	return true
}

func (t *Timeline) cells() int { return min(t.last+1, maxCells) }

// Draw draws the timeline: empty where the order of calls is not known. A place leads to where
// href says of its capture.
func (t *Timeline) Draw(href func(capture string) string) template.HTML {
	all := slices.SortedFunc(maps.Values(t.lanes), compareLanes)
	if len(all) == 0 || t.last == 0 {
		return ""
	}
	p := &picture{width: width, height: float64(len(all)*laneTall + axisTall)}
	step := (width - labels - 10) / float64(t.cells())
	for i, l := range all {
		y := float64(i * laneTall)
		p.text(labels-8, y+13, "end", tail(l.label(all), 34))
		for k, m := range l.cells {
			if m != nil {
				p.rect(labels+float64(k)*step, y+2, max(step-0.4, 0.6), laneTall-4, "fill-"+string(m.verdict), m.title,
					href(m.capture))
			}
		}
	}
	y := float64(len(all)*laneTall) + 16
	p.text(labels, y, "start", "call 0")
	p.text(width-10, y, "end", fmt.Sprintf("call %d", t.last))
	if len(t.left) > 0 {
		p.text((labels+width)/2, y, "middle", reports.Plural(len(t.left), "1 more row is not drawn",
			"%d more rows are not drawn"))
	}
	return p.svg("timeline", "the calls of each process in order, coloured by verdict")
}

// Drawn are the verdicts of the places that Draw draws, as verdict.All orders them.
func (t *Timeline) Drawn() (drawn []verdict.Verdict) {
	has := map[verdict.Verdict]bool{}
	for _, l := range t.lanes {
		for _, m := range l.cells {
			if m != nil {
				has[m.verdict] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(has), func(a, b verdict.Verdict) int { return cmp.Compare(rank(a), rank(b)) })
}

// label is the name of a lane beside all others. If these have several folders, it has its own, which tells a process
// from others if no other ran there.
func (l *lane) label(all []*lane) string {
	if l.folder == "" || all[0].folder == all[len(all)-1].folder {
		return l.name
	}
	alone := !slices.ContainsFunc(all, func(o *lane) bool {
		return o.folder == l.folder && (o.rank != l.rank || o.pid != l.pid)
	})
	if alone {
		return l.folder + ", " + l.phase()
	}
	return l.folder + ", " + l.name
}

// phase is the pass of a lane.
func (l *lane) phase() string {
	if l.backward {
		return "backward"
	}
	return "forward"
}

func newLane(r *reports.Result) *lane {
	l := &lane{folder: r.Folder(), rank: -1, pid: -1, backward: r.Phase == "backward"}
	var parts []string
	if r.Rank != nil {
		l.rank = *r.Rank
		parts = append(parts, fmt.Sprintf("rank %d", l.rank))
	}
	if r.PID != nil {
		l.pid = *r.PID
		parts = append(parts, fmt.Sprintf("process %d", l.pid))
	}
	l.name = strings.Join(append(parts, l.phase()), ", ")
	return l
}

func side(backward bool) int {
	if backward {
		return 1
	}
	return 0
}

// Near is the share of its bound from which on an error is a near miss.
const Near = 0.8

// Decades of the shares of bounds that are drawn; what is beyond stands at the edge.
const leastDecade, mostDecade = -4, 3

// Margins are, for each op, its errors as shares of what their rules allow, on a
// logarithmic scale: left of the line at 1 they pass. Ops whose errors come nearest to
// their bounds, or exceed them, are first.
type Margins struct {
	rows map[string]*marginRow
	left bool // ops were forgotten that are further from their bounds than maxMargin others
}

// maxRows is how many ops are held.
const maxRows = 16 * maxMargin

type marginRow struct {
	op    string
	worst float64
	at    map[int]*mark // by place, the worst of each
}

// NewMargins returns margins without errors.
func NewMargins() *Margins { return &Margins{rows: map[string]*marginRow{}} }

// byWorst orders rows: those with the largest errors first.
func byWorst(a, b *marginRow) int {
	return cmp.Or(cmp.Compare(b.worst, a.worst), cmp.Compare(a.op, b.op))
}

// marginPlaces is how many places the scale has.
const marginPlaces = 370

func marginPlace(ratio float64) int {
	d := min(max(math.Log10(ratio), leastDecade), mostDecade)
	return int((d - leastDecade) / (mostDecade - leastDecade) * (marginPlaces - 1))
}

// Add adds a result; one without a bound is passed over.
func (m *Margins) Add(r *reports.Result) {
	if r.BoundRatio == nil || math.IsNaN(float64(*r.BoundRatio)) || *r.BoundRatio <= 0 {
		return
	}
	ratio := float64(*r.BoundRatio)
	w := m.rows[r.Op]
	if w == nil {
		if len(m.rows) == maxRows {
			for _, o := range slices.SortedFunc(maps.Values(m.rows), byWorst)[maxMargin:] {
				delete(m.rows, o.op)
			}
			m.left = true
		}
		w = &marginRow{op: r.Op, at: map[int]*mark{}}
		m.rows[r.Op] = w
	}
	w.worst = max(w.worst, ratio)
	if k := marginPlace(ratio); w.at[k].worse(r.Verdict) {
		w.at[k] = &mark{fmt.Sprintf("%s, %s: %s, %.3g of what is allowed", r.Title(), r.Target, r.Verdict, ratio),
			r.Capture, r.Verdict, ratio}
	}
}

// Draw draws the margins: empty where no error has a bound. An error leads to where href says
// of its capture.
func (m *Margins) Draw(href func(capture string) string) template.HTML {
	if len(m.rows) == 0 {
		return ""
	}
	all := slices.SortedFunc(maps.Values(m.rows), byWorst)
	left := len(all) - maxMargin
	all = all[:min(len(all), maxMargin)]
	p := &picture{width: width, height: float64(len(all)*laneTall + 2*axisTall)}
	span := float64(width - labels - 60)
	x := func(i int) float64 { return labels + 10 + float64(i)*span/(marginPlaces-1) }
	bottom := p.height - axisTall
	for d := leastDecade; d <= mostDecade; d++ {
		at, class := x(marginPlace(math.Pow10(d))), "grid"
		if d == 0 {
			class = "mark"
		}
		p.line(at, axisTall-6, at, bottom, class)
		label := fmt.Sprintf("%g", math.Pow10(d))
		switch d {
		case 0:
			label = "bound"
		case leastDecade:
			label = "≤ " + label
		case mostDecade:
			label = "≥ " + label
		}
		p.text(at, 14, "middle", label)
	}
	for i, w := range all {
		y := float64(axisTall + i*laneTall)
		p.text(labels-8, y+13, "end", tail(w.op, 34))
		p.line(labels, y+laneTall/2, width-10, y+laneTall/2, "grid")
		for _, k := range slices.Sorted(maps.Keys(w.at)) {
			r := w.at[k]
			class := "fill-" + string(r.verdict)
			if r.verdict == verdict.Pass && r.ratio >= Near {
				class = "fill-near"
			}
			at, line := x(k)-2.5, x(marginPlace(1))
			if r.ratio <= 1 { // no mark of a value that passes touches the line
				at = min(at, line-6)
			} else {
				at = max(at, line+1)
			}
			p.rect(at, y+4, 5, laneTall-8, class, r.title, href(r.capture))
		}
	}
	switch {
	case m.left:
		p.text(labels, bottom+16, "start", "more ops are further from their bounds")
	case left > 0:
		p.text(labels, bottom+16, "start", reports.Count(left, "more op")+", further from the bounds")
	}
	return p.svg("margins", "errors of each op as shares of their bounds")
}

// shade is the colour of an error: 0 none, to 9 the largest, by its logarithm.
func shade(u, worst float64) int {
	switch {
	case u == 0:
		return 0
	case math.IsInf(u, 1) || worst <= 0:
		return 9
	}
	return 1 + int(min(7, 8*math.Log1p(u)/math.Log1p(worst)))
}

// ErrorMap draws a matrix of errors, each cell darker the larger it is, those that are
// not finite marked. name says what a cell holds: "ulp".
func ErrorMap(cells [][]float64, name string) template.HTML {
	if len(cells) == 0 || len(cells[0]) == 0 {
		return ""
	}
	rows, cols := len(cells), len(cells[0])
	size := min(14, max(4, 520/float64(max(cols, 1))))
	p := &picture{width: max(float64(cols)*size, 150) + 2, height: float64(rows)*size + 22}
	worst := 0.0
	for _, row := range cells {
		for _, u := range row {
			if !math.IsInf(u, 1) && u == u {
				worst = max(worst, u)
			}
		}
	}
	for i, row := range cells {
		for j, u := range row {
			class := fmt.Sprintf("shade-%d", shade(u, worst))
			if math.IsInf(u, 1) || u != u {
				class = "fill-crash"
			}
			p.rect(1+float64(j)*size, 1+float64(i)*size, size-0.5, size-0.5, class,
				fmt.Sprintf("[%d, %d]: %.4g %s", i, j, u, name), "")
		}
	}
	p.text(1, p.height-6, "start", fmt.Sprintf("largest: %.4g %s", worst, name))
	return p.svg("map", "map of errors")
}

// A Bar is a count of a histogram.
type Bar struct {
	Name  string
	Count int
	Class string
}

// Histogram draws counts as bars on a logarithmic scale, so that one element of a
// million is seen.
func Histogram(bars []Bar) template.HTML {
	const tall, room = 18, 110
	p := &picture{width: 430, height: float64(len(bars)*tall) + 4}
	most := 1
	for _, b := range bars {
		most = max(most, b.Count)
	}
	for i, b := range bars {
		y := float64(i * tall)
		p.text(room-8, y+13, "end", b.Name)
		long := 0.0
		if b.Count > 0 {
			long = max(2, 230*math.Log1p(float64(b.Count))/math.Log1p(float64(most)))
		}
		p.rect(room, y+3, long, tall-5, b.Class, fmt.Sprintf("%s: %d", b.Name, b.Count), "")
		p.text(room+long+5, y+13, "start", fmt.Sprint(b.Count))
	}
	return p.svg("histogram", "how many elements are how far off")
}

// octaves are the distances up to which bars of Errors reach, as powers of two; the last
// bar has what is further.
var octaves = []int{0, 1, 2, 3, 4, 8, 12, 16, 20, 24}

// Errors is the histogram of a profile.
func Errors(pr *reports.Profile) template.HTML {
	bars := []Bar{{"equal", pr.Equal, "shade-1"}}
	octaved, others := reports.Distances(pr.Octaves, pr.OtherSign)
	from := 0
	for i, to := range octaves {
		bars = append(bars, Bar{"< " + power(to) + " ulp", sum(octaved, from, to+1),
			fmt.Sprintf("shade-%d", min(9, i+1))})
		from = to + 1
	}
	if n := sum(octaved, from, len(octaved)); n > 0 {
		bars = append(bars, Bar{"≥ " + power(from-1) + " ulp", n, "shade-9"})
	}
	for bars[len(bars)-1].Count == 0 && len(bars) > 1 {
		bars = bars[:len(bars)-1]
	}
	if others > 0 {
		bars = append(bars, Bar{"other sign", others, "shade-9"})
	}
	if pr.Infinite > 0 {
		bars = append(bars, Bar{"not finite", pr.Infinite, "fill-crash"})
	}
	return Histogram(bars)
}

func sum(counts []int, from, to int) int {
	n := 0
	for i := from; i < min(to, len(counts)); i++ {
		n += counts[i]
	}
	return n
}

func power(k int) string {
	if k <= 12 {
		return fmt.Sprint(1 << k)
	}
	return fmt.Sprintf("2^%d", k)
}

// Map is the error map of a profile.
func Map(pr *reports.Profile) template.HTML {
	cells := make([][]float64, len(pr.Map))
	for i, row := range pr.Map {
		cells[i] = make([]float64, len(row))
		for j, u := range row {
			cells[i][j] = float64(u)
		}
	}
	return ErrorMap(cells, "ulp")
}

// shadesAlone are the colours of a picture that stands in no page, for shade-1 on.
var shadesAlone = []string{"#fde0d2", "#fcbfa3", "#fc9b77", "#fb7351", "#ef4533", "#ce1b1f", "#a30f15", "#67000d", "#3d0008"}

// File is a picture as a file of its own, with the colours that a page would give.
func File(svg template.HTML) []byte {
	var style strings.Builder
	style.WriteString("text{font:12px sans-serif}rect{fill:#f4f4f4}.fill-crash{fill:#000}" +
		".grid{stroke:#ddd}.axis{stroke:#777}.mark{stroke:#b00020;stroke-width:1.5}.box{fill:#c9d4e5}")
	for i, c := range shadesAlone {
		fmt.Fprintf(&style, ".shade-%d{fill:%s}", i+1, c)
	}
	return []byte(strings.Replace(strings.Replace(string(svg), "<svg ", `<svg xmlns="http://www.w3.org/2000/svg" `, 1),
		">", "><style>"+style.String()+"</style>", 1) + "\n")
}
