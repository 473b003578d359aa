// Package plots draws measured times. It is apart from package reports because
// drawing needs fonts.
package plots

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

// maxRows is the number of series that fit one picture.
const maxRows = 60

// quartiles are the medians of series with the distance to their quartiles.
type quartiles struct {
	plotter.XYs
	low, high []float64
}

func (q *quartiles) XError(i int) (float64, float64) { return q.low[i], q.high[i] }

// Timings draws the median and the quartiles of the slowest series, in
// milliseconds on a logarithmic axis, as "svg" or "png".
func Timings(w io.Writer, format string, ts []*reports.Timing) error {
	type row struct {
		name string
		s    timing.Summary
	}
	var rows []row
	for _, t := range ts {
		if s := t.Series.Summary(); s.Min > 0 {
			rows = append(rows, row{label(t), s})
		}
	}
	if len(rows) == 0 {
		return fmt.Errorf("nothing to draw")
	}
	slices.SortStableFunc(rows, func(a, b row) int { return int(b.s.Median - a.s.Median) })
	rows = rows[:min(len(rows), maxRows)]
	slices.Reverse(rows) // the slowest on top

	p := plot.New()
	p.Title.Text = "Median and quartiles"
	p.X.Label.Text = "ms"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	q := &quartiles{}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = "    " + r.name // the plot would clip it
		m := ms(r.s.Median)
		q.XYs = append(q.XYs, plotter.XY{X: m, Y: float64(i)})
		q.low, q.high = append(q.low, ms(r.s.Q1)-m), append(q.high, ms(r.s.Q3)-m)
	}
	p.X.Min, p.X.Max = decades(ms(rows[0].s.Q1), ms(rows[len(rows)-1].s.Q3))
	p.NominalY(names...)
	points, err := plotter.NewScatter(q)
	if err != nil {
		return err
	}
	points.GlyphStyle.Shape, points.GlyphStyle.Radius = draw.CircleGlyph{}, vg.Points(2.5)
	bars, err := plotter.NewXErrorBars(q)
	if err != nil {
		return err
	}
	p.Add(plotter.NewGrid(), bars, points)
	to, err := p.WriterTo(24*vg.Centimeter, vg.Length(len(rows))*0.55*vg.Centimeter+3*vg.Centimeter, format)
	if err != nil {
		return err
	}
	_, err = to.WriteTo(w)
	return err
}

// label names a series: the number of the call tells calls of an op apart.
func label(t *reports.Timing) string {
	id := ""
	if t.ForwardID != nil {
		id = fmt.Sprintf(" %d", *t.ForwardID)
	}
	return fmt.Sprintf("%s%s %s %s", t.Op, id, t.Phase, t.Series.Cache)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// decades widens a range to whole powers of ten.
func decades(lo, hi float64) (float64, float64) {
	lo, hi = math.Pow(10, math.Floor(math.Log10(lo))), math.Pow(10, math.Ceil(math.Log10(hi)))
	if lo == hi {
		hi *= 10
	}
	return lo, hi
}
