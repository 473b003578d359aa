package charts

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

// maxSeries is how many series Quartiles draws.
const maxSeries = 50

// Quartiles draws, on one logarithmic scale, the median of each series, the middle half
// of its runs as a box, and all as a line. The series that take longest, all calls that
// they stand for together, are first.
func Quartiles(ts []*reports.Timing) template.HTML {
	if len(ts) == 0 {
		return ""
	}
	all := slices.Clone(ts)
	cost := func(t *reports.Timing) float64 {
		return float64(t.Series.Summary().Median) * float64(max(t.Calls, 1))
	}
	slices.SortStableFunc(all, func(a, b *reports.Timing) int { return cmp.Compare(cost(b), cost(a)) })
	left := len(all) - maxSeries
	all = all[:min(len(all), maxSeries)]
	low, high := math.Inf(1), 0.0
	for _, t := range all {
		s := t.Series.Summary()
		low, high = min(low, max(float64(s.Min), 1)), max(high, float64(s.Max))
	}
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(max(high, 1)))
	to = max(to, from+1)
	p := &picture{width: width, height: float64(len(all)*laneTall + 2*axisTall)}
	x := func(ns float64) float64 {
		return labels + 60 + (math.Log10(max(ns, 1))-from)/(to-from)*(width-labels-100)
	}
	for d := from; d <= to; d++ {
		at := x(math.Pow(10, d))
		p.line(at, axisTall-6, at, p.height-axisTall, "grid")
		p.text(at, 14, "middle", timing.Format(time.Duration(math.Pow(10, d))))
	}
	for i, t := range all {
		y, s := float64(axisTall+i*laneTall), t.Series.Summary()
		p.text(labels+44, y+13, "end", tail(fmt.Sprintf("%s %s %s", t.Op, t.Phase, t.Series.Cache), 38))
		mid := y + laneTall/2
		p.line(x(float64(s.Min)), mid, x(float64(s.Max)), mid, "axis")
		box := x(float64(s.Q1))
		p.rect(box, y+4, max(x(float64(s.Q3))-box, 2), laneTall-8, "box", fmt.Sprintf(
			"%s %s %s %s: median %s, quartiles %s and %s, %d runs", t.Op, t.Shapes, t.Phase, t.Series.Cache,
			timing.Format(s.Median), timing.Format(s.Q1), timing.Format(s.Q3), s.N), "")
		at := x(float64(s.Median))
		p.line(at, y+2, at, y+laneTall-2, "mark")
	}
	if left > 0 {
		p.text(labels, p.height-8, "start", fmt.Sprintf("%d more series take less", left))
	}
	return p.svg("quartiles", "median and quartiles of the times of each series")
}

// Roofline draws the operations per second of each series over the operations it does
// for a byte, under what memory and arithmetic allow at most. It is empty where no
// peak, or no number of operations, is known.
func Roofline(ts []*reports.Timing) template.HTML {
	type point struct {
		t            *reports.Timing
		intensity, f float64
	}
	var points []point
	var peak reports.Peak
	for _, t := range ts {
		peak.Bandwidth, peak.Flops = max(peak.Bandwidth, t.Peak.Bandwidth), max(peak.Flops, t.Peak.Flops)
		if _, f := t.Rates(); f > 0 && t.Bytes > 0 {
			points = append(points, point{t, t.Flops / t.Bytes, f})
		}
	}
	if len(points) == 0 || peak.Bandwidth == 0 || peak.Flops == 0 {
		return ""
	}
	ridge := peak.Flops / peak.Bandwidth
	lowX, highX, lowY := ridge/10, ridge*10, peak.Flops/100
	for _, q := range points {
		lowX, highX, lowY = min(lowX, q.intensity), max(highX, q.intensity), min(lowY, q.f)
	}
	fromX, toX := math.Floor(math.Log10(lowX)), math.Ceil(math.Log10(highX))
	fromY, toY := math.Floor(math.Log10(lowY)), math.Ceil(math.Log10(peak.Flops))+0.2
	const tall, leftRoom = 380, 110
	p := &picture{width: width, height: tall + 50}
	x := func(v float64) float64 { return leftRoom + (math.Log10(v)-fromX)/(toX-fromX)*(width-leftRoom-30) }
	y := func(v float64) float64 { return 10 + tall - (math.Log10(v)-fromY)/(toY-fromY)*tall }
	for d := fromX; d <= toX; d++ {
		at := x(math.Pow(10, d))
		p.line(at, 10, at, 10+tall, "grid")
		p.text(at, tall+26, "middle", fmt.Sprintf("%g", math.Pow(10, d)))
	}
	for d := fromY; d <= toY; d++ {
		at := y(math.Pow(10, d))
		p.line(leftRoom, at, width-30, at, "grid")
		p.text(leftRoom-8, at+4, "end", fmt.Sprintf("%g Gflop/s", math.Pow(10, d)/1e9))
	}
	p.text((leftRoom+width)/2, tall+44, "middle", "operations per byte")
	start := max(math.Pow(10, fromX), math.Pow(10, fromY)/peak.Bandwidth)
	p.line(x(start), y(start*peak.Bandwidth), x(ridge), y(peak.Flops), "mark")
	p.line(x(ridge), y(peak.Flops), x(math.Pow(10, toX)), y(peak.Flops), "mark")
	for _, q := range points {
		p.add(`<circle cx="%.1f" cy="%.1f" r="4" class="point %s"><title>%s</title></circle>`, x(q.intensity), y(q.f),
			q.t.Series.Cache, template.HTMLEscapeString(fmt.Sprintf("%s %s %s %s: %.3g Gflop/s, %.3g per byte, %.0f %% of the peak",
				q.t.Op, q.t.Shapes, q.t.Phase, q.t.Series.Cache, q.f/1e9, q.intensity, 100*q.t.Share())))
	}
	return p.svg("roofline", "operations per second over operations per byte")
}
