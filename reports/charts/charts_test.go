package charts

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// capture is where the recorder of optool puts a call.
func capture(order, pid int) string {
	return fmt.Sprintf("rank0/%d-2026-11-29-14-45-56/torch.<add>.%d", pid, order)
}

func result(order, pid int, phase string, v verdict.Verdict, ratio float64) *reports.Result {
	r := &reports.Result{Capture: capture(order, pid), Op: "torch.<add>", Phase: phase, Verdict: v,
		Order: &order, PID: &pid}
	if ratio > 0 {
		r.BoundRatio = reports.Num(ratio)
	}
	return r
}

// wellFormed fails unless s is XML.
func wellFormed(t *testing.T, s string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(s))
	for {
		_, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%v in %.200s", err, s)
		}
	}
}

func timeline(all []*reports.Result, last int, href func(string) string) string {
	x := NewTimeline(last)
	for _, r := range all {
		x.Add(r, r.Verdict)
	}
	return string(x.Draw(href))
}

func margins(all ...*reports.Result) string {
	x := NewMargins()
	for _, r := range all {
		x.Add(r)
	}
	return string(x.Draw(func(string) string { return "" }))
}

// TestDrawn: the legend of a timeline has no verdict of a result behind a worse one.
func TestDrawn(t *testing.T) {
	x := NewTimeline(3)
	for _, r := range []*reports.Result{
		result(0, 7, "forward", verdict.Pass, 0), result(1, 7, "forward", verdict.Mistrusted, 0),
		result(1, 7, "forward", verdict.Pass, 0), result(9, 7, "forward", verdict.Fail, 0)} {
		x.Add(r, r.Verdict)
	}
	if got := x.Drawn(); !slices.Equal(got, []verdict.Verdict{verdict.Pass}) {
		t.Errorf("got %v", got)
	}
}

func TestTimeline(t *testing.T) {
	var all []*reports.Result
	for i := range 5000 {
		v := verdict.Pass
		if i == 4321 {
			v = verdict.Fail
		}
		all = append(all, result(i, 7, "forward", v, 0), result(i, 8, "backward", verdict.Pass, 0))
	}
	got := timeline(all, 4999, func(of string) string {
		if of == capture(4321, 7) {
			return "#here"
		}
		return ""
	})
	wellFormed(t, got)
	if n := strings.Count(got, "fill-fail"); n != 1 || !strings.Contains(got, `<a href="#here">`) {
		t.Errorf("%d wrong calls drawn, want 1 that leads to #here", n)
	}
	if n := strings.Count(got, "<rect"); n != 2*maxCells {
		t.Errorf("%d cells, want %d", n, 2*maxCells)
	}
	if timeline([]*reports.Result{{Op: "a", Verdict: "pass"}}, 9, nil) != "" {
		t.Error("calls without order are drawn")
	}
}

// TestTimelineOfManyProcesses: the first are drawn, in whatever order their results come.
func TestTimelineOfManyProcesses(t *testing.T) {
	var all []*reports.Result
	for pid := 2 * maxLanes; pid > 0; pid-- {
		all = append(all, result(0, pid, "forward", verdict.Pass, 0), result(1, pid, "forward", verdict.Fail, 0))
	}
	got := timeline(all, 1, func(string) string { return "" })
	wellFormed(t, got)
	if n := strings.Count(got, "<rect"); n != 2*maxLanes {
		t.Errorf("%d calls are drawn, want %d", n, 2*maxLanes)
	}
	for _, want := range []string{">process 1, forward<", fmt.Sprintf(">process %d, forward<", maxLanes),
		fmt.Sprintf(">%d more rows are not drawn<", maxLanes)} {
		if !strings.Contains(got, want) {
			t.Errorf("the timeline lacks %q", want)
		}
	}
}

// TestTimelineOfFolders: models that ran in processes of one number have rows of their own.
func TestTimelineOfFolders(t *testing.T) {
	a, b := result(0, 104, "forward", verdict.Pass, 0), result(0, 104, "forward", verdict.Fail, 0)
	other := result(0, 105, "forward", verdict.Pass, 0)
	a.Capture, b.Capture, other.Capture = "chipA/mlp/"+a.Capture, "chipB/mlp/"+b.Capture, "chipB/mlp/"+other.Capture
	got := timeline([]*reports.Result{b, a, other}, 1, func(string) string { return "" })
	wellFormed(t, got)
	first := strings.Index(got, ">chipA/mlp, forward<")
	if second := strings.Index(got, ">chipB/mlp, process 104, forward<"); first < 0 || second < first {
		t.Errorf("want a row for each folder, in order: %s", got)
	}
}

func TestMargins(t *testing.T) {
	got := margins(result(1, 1, "forward", verdict.Pass, 0.9), result(2, 1, "forward", verdict.Pass, 0.1),
		result(3, 1, "forward", verdict.Fail, math.Inf(1)), result(4, 1, "forward", verdict.Pass, 0))
	wellFormed(t, got)
	for class, want := range map[string]int{"fill-near": 1, "fill-pass": 1, "fill-fail": 1} {
		if n := strings.Count(got, class); n != want {
			t.Errorf("%d marks %s, want %d", n, class, want)
		}
	}
	if margins(result(4, 1, "forward", verdict.Pass, 0)) != "" {
		t.Error("equal values are drawn")
	}
}

// TestMarginsOfManyOps: those that come nearest to their bounds are held, in whatever order results come.
func TestMarginsOfManyOps(t *testing.T) {
	m := NewMargins()
	for i := range 3*maxRows + 5 {
		r := result(1, 1, "forward", verdict.Pass, 0.5/float64(i%maxRows+1))
		r.Op = fmt.Sprintf("op%d", i)
		m.Add(r)
	}
	if len(m.rows) > maxRows || m.rows["op0"] == nil {
		t.Errorf("%d ops are held, want at most %d, with the worst", len(m.rows), maxRows)
	}
	got := string(m.Draw(func(string) string { return "" }))
	wellFormed(t, got)
	if !strings.Contains(got, "more ops are further from their bounds") {
		t.Error("the margins do not say that ops are left out")
	}
}

func TestErrorMap(t *testing.T) {
	got := string(ErrorMap([][]float64{{0, 1}, {1000, math.Inf(1)}}, "ulp"))
	wellFormed(t, got)
	for _, want := range []string{`class="shade-0"><title>[0, 0]`, `class="shade-8"><title>[1, 0]`,
		`class="fill-crash"><title>[1, 1]`, "largest: 1000 ulp"} {
		if !strings.Contains(got, want) {
			t.Errorf("the map lacks %q:\n%s", want, got)
		}
	}
	if ErrorMap(nil, "ulp") != "" {
		t.Error("nothing is drawn")
	}
}

// TestErrors: every element of a profile is in one bar.
func TestErrors(t *testing.T) {
	p := &reports.Profile{Numel: 1000, Equal: 10, Infinite: 3, Octaves: make([]int, 150)}
	for i := range p.Octaves {
		p.Octaves[i] = i
	}
	p.OtherSign = make([]int, 150)
	p.OtherSign[31] = 20 // zero passed
	got := string(Errors(p))
	wellFormed(t, got)
	if !strings.Contains(got, "<title>other sign: 20<") {
		t.Errorf("no bar of other signs in %s", got)
	}
	total := 0
	for _, part := range strings.Split(got, "<title>")[1:] {
		var n int
		text, _, _ := strings.Cut(part, "<")
		if _, err := fmt.Sscan(text[strings.LastIndex(text, " "):], &n); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		total += n
	}
	if want := 10 + 3 + 149*150/2; total != want {
		t.Errorf("%d elements drawn, want %d", total, want)
	}
}

// TestMarginsBesideTheLine: no mark of a value that passes touches the line of its bound, none of one that fails lies
// left of it.
func TestMarginsBesideTheLine(t *testing.T) {
	draw := func(ratio float64, v verdict.Verdict) (line, from, to float64) {
		m := NewMargins()
		m.Add(&reports.Result{Op: "torch.add", Verdict: v, BoundRatio: reports.Num(ratio)})
		svg := string(m.Draw(func(string) string { return "" }))
		var y, wide float64
		_, mark, _ := strings.Cut(strings.Replace(svg, `class="mark"`, "\x00", 1), "\x00")
		before := strings.TrimSuffix(svg, `class="mark"`+mark)
		fmt.Sscanf(before[strings.LastIndex(before, "<line"):], `<line x1="%f" y1="%f"`, &line, &y)
		fmt.Sscanf(svg[strings.Index(svg, "<rect"):], `<rect x="%f" y="%f" width="%f"`, &from, &y, &wide)
		return line, from, from + wide
	}
	for _, ratio := range []float64{0.95, 0.999, 1} {
		if line, _, to := draw(ratio, verdict.Pass); line == 0 || to >= line {
			t.Errorf("%g of the bound passes and is drawn up to %g, the line is at %g", ratio, to, line)
		}
	}
	if line, from, _ := draw(1.001, verdict.Fail); from <= line {
		t.Errorf("a failure is drawn from %g, the line is at %g", from, line)
	}
}
