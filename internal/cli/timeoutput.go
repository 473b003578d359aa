package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

// A timeTable prints series as they are known: one per line, or in few columns
// below a line for each call.
type timeTable struct {
	w        io.Writer
	list     *reports.Listing
	width    int
	narrow   bool
	peak     bool
	accuracy bool
	last     string          // the line of the call, in few columns
	marks    map[string]bool // doubts that were printed as a mark
}

// timeWidth is the width from which a series fits into one line with its call.
const timeWidth = 180

// doubtMarks replace doubts where there is no room for them.
var doubtMarks = []struct{ mark, kind, text string }{
	{"!", "invalid", "invalid: faster than the peak"},
	{"w", "disturbed", "disturbed: its threads waited for a processor, more than 2 % of the time"},
	{"?", "few", "few: less than five runs say little of how the time varies"},
	{"~", "noisy", "noisy: the middle half spans more than a tenth of the median"},
}

// newTimeTable prints to w in lines of at most width columns, 0 for no limit.
func newTimeTable(w io.Writer, width int, peak, accuracy bool) *timeTable {
	t := &timeTable{w: w, width: width, narrow: width > 0 && width < timeWidth, peak: peak, accuracy: accuracy,
		marks: map[string]bool{}}
	head := []string{"op", "id", "phase", "cache", "n", "median", "q1", "q3", "GB/s", "GFLOP/s", "memory"}
	numbers := 4
	if t.narrow {
		head, numbers = head[2:], 2
		if !t.wideEnough() {
			head = head[:len(head)-2]
		}
	}
	if t.peak {
		head = append(head, "% of peak")
	}
	to := len(head)
	switch {
	case !t.narrow:
		head = append(head, "stopped by", "calls", "inputs", "doubt")
		if accuracy {
			head = append(head, "accuracy")
		}
	case t.wideEnough():
		head = append(head, "stopped by", "")
	default:
		head = append(head, "")
	}
	t.list = reports.NewListing(w, width, head...)
	for i := numbers; i < to; i++ {
		t.list.Right(i)
	}
	return t
}

// wideEnough reports whether few columns leave room for some more.
func (t *timeTable) wideEnough() bool { return t.width >= 110 }

// add prints a series; worst is the verdict on the results of the call.
func (t *timeTable) add(x *reports.Timing, worst verdict.Verdict) error {
	m := x.Series.Summary()
	bandwidth, flops := x.Rates()
	id := "-"
	if x.ForwardID != nil {
		id = strconv.Itoa(*x.ForwardID)
	}
	cells := []string{
		x.Phase, string(x.Series.Cache), strconv.Itoa(m.N), timing.Format(m.Median), timing.Format(m.Q1),
		timing.Format(m.Q3),
		fmt.Sprintf("%.3g", bandwidth/1e9),
	}
	if !t.narrow || t.wideEnough() {
		cells = append(cells, fmt.Sprintf("%.3g", flops/1e9), x.MemoryText())
	}
	if t.peak {
		cells = append(cells, fmt.Sprintf("%.1f", 100*x.Share()))
	}
	if !t.narrow {
		cells = append(append([]string{x.Op, id}, cells...), string(x.Series.Stop), strconv.Itoa(x.Calls),
			x.Shapes, brief(x.Doubt()))
		if t.accuracy {
			cells = append(cells, string(worst))
		}
		return t.list.Add(cells...)
	}
	t.call(x, id, worst)
	if t.wideEnough() {
		cells = append(cells, string(x.Series.Stop))
	}
	return t.list.Add(append(cells, t.mark(x.Doubt()))...)
}

// brief is a doubt as a cell of each line shows it: that there were few runs is the same for all, and n says how many.
func brief(doubt string) string {
	if kind, _, _ := strings.Cut(doubt, ":"); kind == "few" {
		return kind
	}
	return doubt
}

// call prints the line of a call, and a second one where its inputs do not fit.
func (t *timeTable) call(x *reports.Timing, id string, worst verdict.Verdict) {
	if key := x.Op + " " + x.Capture; key != t.last {
		t.last = key
		line := x.Op + "  " + id
		if x.Calls > 1 {
			line += fmt.Sprintf("  %d calls", x.Calls)
		}
		if t.accuracy {
			line += "  " + cmp.Or(string(worst), "-")
		}
		if full := line + "  " + x.Shapes; utf8.RuneCountInString(full) <= t.width {
			t.list.Line(full)
		} else {
			t.list.Line(line)
			t.list.Line("  " + x.Shapes)
		}
	}
}

// mark is the mark of a doubt.
func (t *timeTable) mark(doubt string) string {
	kind, _, _ := strings.Cut(doubt, ":")
	for _, d := range doubtMarks {
		if d.kind == kind {
			t.marks[kind] = true
			return d.mark
		}
	}
	return ""
}

// legend explains the marks that were printed.
func (t *timeTable) legend() error {
	for _, d := range doubtMarks {
		if t.marks[d.kind] {
			if _, err := fmt.Fprintf(t.w, "%s  %s\n", d.mark, d.text); err != nil {
				return err
			}
		}
	}
	return nil
}
