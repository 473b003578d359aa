package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
)

// A CaseTable counts conformance cases by function and by dtype.
type CaseTable struct{ functions, dtypes map[string]*CaseCount }

// A CaseCount is how the cases of one function or dtype went.
type CaseCount struct {
	Name           string
	Passed         int
	Failed         int // other results, crashes, timeouts, data that does not read
	LeftOut        int // by a rule or a list of the device
	NotImplemented int
	// Partly is how many of the cases that are not implemented have results that passed, Right the number of these
	// results, and Lacks what the first one lacks.
	Partly, Right int
	Lacks         string
	NotCompared   int // nothing to compare with, not meant to be run this way, or nothing that proves anything
	Worst         string
	worst         int
}

// NewCaseTable returns an empty table.
func NewCaseTable() *CaseTable {
	return &CaseTable{functions: map[string]*CaseCount{}, dtypes: map[string]*CaseCount{}}
}

// Add counts a case, which is of one function and has arguments of these dtypes,
// by its results. leftOut says that the device is not to run it.
func (t *CaseTable) Add(function string, dtypes []string, results []*Result, leftOut bool) {
	f := NewFinding(results)
	worst, note := f.Worst(), ""
	for _, r := range results {
		if r.Verdict == worst && worst != verdict.Pass {
			note = strings.TrimSpace(r.Target + " " + r.Reason)
			break
		}
	}
	countOf(t.functions, function).add(worst, note, leftOut)
	if worst == verdict.Unsupported {
		countOf(t.functions, function).partly(results, note)
	}
	for _, dt := range slices.Compact(slices.Sorted(slices.Values(dtypes))) {
		countOf(t.dtypes, dt).add(worst, note, leftOut)
		if worst == verdict.Unsupported {
			countOf(t.dtypes, dt).partly(results, note)
		}
	}
}

func countOf(m map[string]*CaseCount, name string) *CaseCount {
	if m[name] == nil {
		m[name] = &CaseCount{Name: name, worst: -1}
	}
	return m[name]
}

func (c *CaseCount) add(v verdict.Verdict, note string, leftOut bool) {
	switch v {
	case verdict.Pass, verdict.Warn:
		c.Passed++
	case verdict.Mistrusted:
		c.NotCompared++
	case verdict.Unsupported:
		c.NotImplemented++
	case verdict.Skipped:
		if leftOut {
			c.LeftOut++
		} else {
			c.NotCompared++
		}
	default:
		c.Failed++
	}
	if v.Rank() > c.worst {
		c.worst, c.Worst = v.Rank(), note
	}
}

// partly counts the results of a case that passed although the case as a whole is not implemented.
func (c *CaseCount) partly(results []*Result, lacks string) {
	right := 0
	for _, r := range results {
		if r.Verdict == verdict.Pass || r.Verdict == verdict.Warn {
			right++
		}
	}
	if right == 0 {
		return
	}
	c.Right += right
	if c.Partly++; c.Partly == 1 {
		c.Lacks = lacks
	}
}

// Cases is how many there are.
func (c *CaseCount) Cases() int {
	return c.Passed + c.Failed + c.LeftOut + c.NotImplemented + c.NotCompared
}

// SuccessRate is the share of the cases that were to run which passed; those that the
// device does not implement did not. False if none were to run.
func (c *CaseCount) SuccessRate() (float64, bool) {
	ran := c.Passed + c.Failed + c.NotImplemented
	if ran == 0 {
		return 0, false
	}
	return float64(c.Passed) / float64(ran), true
}

// Functions are the counts by function: those with failures first, then by name.
func (t *CaseTable) Functions() []*CaseCount {
	return slices.SortedFunc(maps.Values(t.functions), func(a, b *CaseCount) int {
		return cmp.Or(cmp.Compare(min(b.Failed, 1), min(a.Failed, 1)), cmp.Compare(a.Name, b.Name))
	})
}

// DTypes are the counts by dtype of tensor arguments, by name. A case with
// several dtypes counts for each.
func (t *CaseTable) DTypes() []*CaseCount {
	return slices.SortedFunc(maps.Values(t.dtypes), func(a, b *CaseCount) int { return cmp.Compare(a.Name, b.Name) })
}

// Total counts all cases.
func (t *CaseTable) Total() *CaseCount {
	sum := &CaseCount{Name: "all"}
	for _, c := range t.functions {
		sum.Passed += c.Passed
		sum.Failed += c.Failed
		sum.LeftOut += c.LeftOut
		sum.NotImplemented += c.NotImplemented
		sum.Partly += c.Partly
		sum.NotCompared += c.NotCompared
	}
	return sum
}

// caseColumns are the columns of counts, the first one's title apart.
var caseColumns = []string{"cases", "passed", "failed", "skipped by rule", "not implemented", "not compared",
	"success rate"}

// Sheets are the tables "by function" and "by dtype" for files.
func (t *CaseTable) Sheets() []Sheet {
	sheet := func(name, title string, counts []*CaseCount) Sheet {
		return Sheet{Name: name, Columns: append(append([]string{title}, caseColumns...), "worst", "right in part"),
			Rows: func(yield func([]any) bool) {
				for _, c := range counts {
					var rate any
					if r, ok := c.SuccessRate(); ok {
						rate = r
					}
					if !yield([]any{c.Name, c.Cases(), c.Passed, c.Failed, c.LeftOut, c.NotImplemented, c.NotCompared,
						rate, textCell(c.Worst), c.Partly}) {
						return
					}
				}
			}}
	}
	return []Sheet{sheet("by function", "function", t.Functions()), sheet("by dtype", "dtype", t.DTypes())}
}

// Write prints both tables, without columns that hold nothing. width limits the
// lines; zero is no limit.
func (t *CaseTable) Write(w io.Writer, width int) error {
	total := t.Total()
	if err := writeCounts(w, width, "function", t.Functions(), total); err != nil {
		return err
	}
	if err := writeCounts(w, width, "dtype", t.DTypes(), total); err != nil {
		return err
	}
	return t.writePartly(w, width)
}

// writePartly says of cases that are not implemented which results passed all the same.
func (t *CaseTable) writePartly(w io.Writer, width int) error {
	said := false
	for _, c := range t.Functions() {
		if c.Partly == 0 {
			continue
		}
		said = true
		text := fmt.Sprintf("%s: %d of %s not implemented passed in part (%s), first: %s", c.Name, c.Partly,
			Count(c.NotImplemented, "case"), Count(c.Right, "result"), c.Lacks)
		if _, err := fmt.Fprintln(w, Style{Width: width}.Wrap(text, 2)); err != nil {
			return err
		}
	}
	if said {
		_, err := fmt.Fprintln(w)
		return err
	}
	return nil
}

type countColumn struct {
	title string
	count func(*CaseCount) int
}

func writeCounts(w io.Writer, width int, title string, counts []*CaseCount, total *CaseCount) error {
	used := slices.DeleteFunc([]countColumn{
		{"cases", (*CaseCount).Cases},
		{"passed", func(c *CaseCount) int { return c.Passed }},
		{"failed", func(c *CaseCount) int { return c.Failed }},
		{"by rule", func(c *CaseCount) int { return c.LeftOut }},
		{"not impl", func(c *CaseCount) int { return c.NotImplemented }},
		{"of these right in part", func(c *CaseCount) int { return c.Partly }},
		{"not compared", func(c *CaseCount) int { return c.NotCompared }},
	}, func(c countColumn) bool { return c.count(total) == 0 })
	head := []string{title}
	for _, c := range used {
		head = append(head, c.title)
	}
	if len(counts) == 0 {
		return nil
	}
	l := NewListing(w, width, append(head, "success", "worst")...)
	l.Wrap()
	for i := range len(used) + 1 {
		l.Right(i + 1)
	}
	for _, c := range counts {
		row := []string{c.Name}
		for _, col := range used {
			n := ""
			if k := col.count(c); k > 0 {
				n = strconv.Itoa(k)
			}
			row = append(row, n)
		}
		rate := "-"
		if r, ok := c.SuccessRate(); ok {
			rate = fmt.Sprintf("%.1f %%", 100*r)
		}
		if err := l.Add(append(row, rate, c.Worst)...); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
