package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/run/budget"
)

// A Budget says what a run that was given a time looked at.
type Budget struct {
	Seconds float64 `json:"budget_s"`
	Looked
	Ops []*OpBudget `json:"ops"` // by name
}

// An OpBudget is the part of an operator in a Budget.
type OpBudget struct {
	Op string `json:"op"`
	Looked
}

// A Looked counts calls, and the elements that are compared of them. Those of calls that were
// not looked at are estimated from the sizes of their files.
type Looked struct {
	Calls           int   `json:"calls"`
	CheckedCalls    int   `json:"checked_calls"`
	Elements        int64 `json:"elements"`
	CheckedElements int64 `json:"checked_elements"` // one by one
	// Excluded is the rate of failing calls above which all are excluded at 95 %, if those
	// that were compared stand for the others.
	Excluded Number `json:"excluded_rate"`
}

// Left is how many calls were not looked at.
func (l *Looked) Left() int { return l.Calls - l.CheckedCalls }

func (l *Looked) add(m *Looked) {
	l.Calls, l.CheckedCalls = l.Calls+m.Calls, l.CheckedCalls+m.CheckedCalls
	l.Elements, l.CheckedElements = l.Elements+m.Elements, l.CheckedElements+m.CheckedElements
}

// Left is how many calls a run did not look at; 0 for one without a budget.
func (s *Summary) Left() int {
	if s.Budget == nil {
		return 0
	}
	return s.Budget.Left()
}

// join adds the budget of another part of a run.
func (b *Budget) join(c *Budget) *Budget {
	switch {
	case c == nil:
		return b
	case b == nil:
		b = &Budget{}
	}
	b.Seconds = max(b.Seconds, c.Seconds)
	b.add(&c.Looked)
	for _, o := range c.Ops {
		at, found := slices.BinarySearchFunc(b.Ops, o.Op,
			func(x *OpBudget, op string) int { return cmp.Compare(x.Op, op) })
		if !found {
			b.Ops = slices.Insert(b.Ops, at, &OpBudget{Op: o.Op})
		}
		b.Ops[at].add(&o.Looked)
	}
	return b
}

// Spend notes that the run was given a time, and what it did not look at: how many calls of
// each operator there are, how many of them it looked at, and the bytes of their files.
func (s *Summary) Spend(given time.Duration, calls map[string]*Spent) {
	s.endCapture()
	b := &Budget{Seconds: given.Seconds()}
	var elements, bytes int64 // of what was looked at
	for op, c := range calls {
		bytes += c.CheckedBytes
		if o := s.ops[op]; o != nil {
			elements += o.elements
		}
	}
	for _, op := range slices.Sorted(maps.Keys(calls)) {
		c, of := calls[op], s.ops[op]
		l := Looked{Calls: c.Calls, CheckedCalls: c.CheckedCalls}
		rate := ratio(elements, bytes)
		if of != nil {
			l.Elements, l.CheckedElements = of.elements, of.checked
			rate = ratio(of.elements, c.CheckedBytes)
		}
		l.Elements += int64(rate * float64(c.Bytes-c.CheckedBytes))
		b.Ops = append(b.Ops, &OpBudget{op, l})
		b.add(&l)
	}
	s.Budget = b
	s.exclude()
}

// A Spent counts the calls of an operator, and those of them that were looked at.
type Spent struct {
	Calls, CheckedCalls int
	Bytes, CheckedBytes int64
}

// perByte is how many elements a byte of a file stands for if nothing is known.
const perByte = 0.1

func ratio(elements, bytes int64) float64 {
	if elements == 0 || bytes == 0 {
		return perByte
	}
	return float64(elements) / float64(bytes)
}

// exclude says which rates of failures the calls that were compared exclude.
func (s *Summary) exclude() {
	if s.Budget == nil {
		return
	}
	s.Budget.Excluded = excluded(s.Captures)
	for _, o := range s.Budget.Ops {
		o.Excluded = 1
		if of := s.ops[o.Op]; of != nil {
			o.Excluded = excluded(of.Counts)
		}
	}
}

func excluded(counts map[verdict.Verdict]int) Number {
	n, failed := judged(counts)
	return Number(budget.Excluded(n, failed))
}

// judged is how many calls were compared in a way that proves something, and how many of
// them failed.
func judged(counts map[verdict.Verdict]int) (n, failed int) {
	for v, k := range counts {
		if v.Differs() {
			failed += k
		}
	}
	return counts[verdict.Pass] + counts[verdict.Warn] + failed, failed
}

// write prints what the run did not look at.
func (b *Budget) write(w io.Writer, st Style, counts map[verdict.Verdict]int) error {
	given := time.Duration(b.Seconds * float64(time.Second))
	if b.Calls == 0 {
		return nil
	}
	if b.Left() == 0 {
		_, err := fmt.Fprintln(w, st.Wrap(fmt.Sprintf("budget of %v: all %s looked at, %s of their elements one by one",
			given, Count(b.Calls, "call"), share(b.CheckedElements, b.Elements)), 2))
		return err
	}
	if !st.Quiet {
		l := NewListing(w, st.Width, "not looked at", "calls", "of", "at most wrong")
		l.Names(0)
		for i := range 3 {
			l.Right(i + 1)
		}
		for _, o := range b.Ops {
			if o.Left() == 0 {
				continue
			}
			rate := "not known"
			if o.Excluded < 1 {
				rate = fmt.Sprintf("%.2g %%", 100*float64(o.Excluded))
			}
			if err := l.Add(o.Op, strconv.Itoa(o.Left()), strconv.Itoa(o.Calls), rate); err != nil {
				return err
			}
		}
		if err := l.Flush(); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("budget of %v: %d of %s looked at (%s), %s of their elements; %s not looked at", given,
		b.CheckedCalls, Count(b.Calls, "call"), share(int64(b.CheckedCalls), int64(b.Calls)),
		"about "+share(b.CheckedElements, b.Elements), Count(b.Left(), "call"))
	if n, failed := judged(counts); b.Excluded < 1 {
		text += fmt.Sprintf(", of which at most %.2g %% are wrong (at 95 %%, if they are like the %d compared, of which "+
			"%s)", 100*float64(b.Excluded), n, are(failed))
	} else if n == failed {
		text += ", of which nothing is known"
	}
	_, err := fmt.Fprintln(w, st.Wrap(text, 2))
	return err
}

func are(n int) string {
	switch n {
	case 0:
		return "none is"
	case 1:
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// share is a part as people write it, which says 100 only if it is all.
func share(part, all int64) string {
	if all <= 0 || part >= all {
		return "100 %"
	}
	return fmt.Sprintf("%.3g %%", min(99.9, 100*float64(part)/float64(all)))
}
