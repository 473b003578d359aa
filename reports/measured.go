package reports

import (
	"fmt"
	"slices"
	"strings"
)

// Measured is what part of the recorded calls a run measured.
type Measured struct {
	Captures      int `json:"captures"`       // selected and understood
	Distinct      int `json:"distinct"`       // kinds of work among them
	Measured      int `json:"measured"`       // of the distinct
	MeasuredCalls int `json:"measured_calls"` // recorded calls they stand for
	// ShareOfCalls and ShareOfBytes are what share of the recorded calls, and of the bytes
	// of their inputs, that is.
	ShareOfCalls float64 `json:"share_of_calls"`
	ShareOfBytes float64 `json:"share_of_bytes"`
	// Recorded are the recorded calls of each op, measured or not; nil where a file does not say it.
	Recorded map[string]int `json:"recorded,omitempty"`
}

// String is how much was measured, in a sentence.
func (m *Measured) String() string {
	return fmt.Sprintf("%d of %d distinct calls measured: %.1f %% of %d calls, %.1f %% of their bytes",
		m.Measured, m.Distinct, 100*m.ShareOfCalls, m.Captures, 100*m.ShareOfBytes)
}

// Left says what was not measured, and what that means for shares; "" if all was.
func (m *Measured) Left() string {
	if m.Measured >= m.Distinct {
		return ""
	}
	return fmt.Sprintf("%s, recorded %s. %s in no sum: a share is of the time of the measured calls, "+
		"not of the run", Count(m.Distinct-m.Measured, "distinct call"), Count(m.Captures-m.MeasuredCalls, "time"),
		Plural(m.Distinct-m.Measured, "Its time is", "Their time is"))
}

// doubtsMeant say what the doubts about times are for those who only read a summary, by how they begin.
var doubtsMeant = []Fact{
	{"invalid", "faster than the peak of the device"},
	{"disturbed", "other programs took the processor meanwhile"},
	{"few", "less than five runs"},
	{"noisy", "half of the runs differ by more than a tenth"},
}

// Doubted counts the measured series whose times should not be trusted, by the reason; "" if there are none.
func Doubted(ts []*Timing) string {
	var doubts []string
	for _, t := range ts {
		doubts = append(doubts, t.Doubt())
	}
	return doubted(doubts)
}

// doubted is Doubted of series with these doubts, "" for none.
func doubted(doubts []string) string {
	counts, all := map[string]int{}, 0
	for _, doubt := range doubts {
		if kind, _, _ := strings.Cut(doubt, ":"); kind != "" {
			counts[kind]++
			all++
		}
	}
	var parts []string
	for _, d := range doubtsMeant {
		if n := counts[d.Name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", n, d.Name, d.Text))
		}
	}
	if all == 0 {
		return ""
	}
	be := "are"
	if len(doubts) == 1 {
		be = "is"
	}
	return fmt.Sprintf("%d of %s %s in doubt: %s", all, Count(len(doubts), "measurement"), be,
		strings.Join(parts, ", "))
}

// timingLeads are what a reader of times needs first: what was not measured, and what is in doubt.
func (rec *Recording) timingLeads() (leads [][2]string) {
	if m := rec.Measured; m != nil && m.Left() != "" {
		leads = append(leads, [2]string{"not measured", m.Left()})
	}
	if text := Doubted(rec.Timings); text != "" {
		leads = append(leads, [2]string{"warning", text})
	}
	leads = append(leads, rec.rivalFacts()...)
	return leads
}

// timingWords explain the tables of times.
func (rec *Recording) timingWords() []Fact {
	return []Fact{
		{"calls", "recorded calls that do the same work: one of them was measured for all"},
		{"recorded", "all recorded calls of the operator, measured or not"},
		{"self", "the median time of a call, times its calls; share is of the sum of the measured calls"},
		{"by op", fmt.Sprintf("the longest self time first, with %s caches", rec.averaged())},
		{"results", "in the order of measuring, which --budget begins with the heaviest call of each operator and dtype"},
		{"cold, hot", "with caches that were emptied before each run, and as the run before left them"},
	}
}

// SumsNote explains the table by operator.
func (rec *Recording) SumsNote() string {
	return fmt.Sprintf("The longest self time first: the median time of a call with %s caches, times its calls. "+
		"share is of the sum of the measured calls. recorded are all recorded calls of the operator, measured or not.",
		rec.averaged())
}

// averaged is the state of the caches whose times are summed by op: hot if any run was.
func (rec *Recording) averaged() string {
	if slices.ContainsFunc(rec.Timings, func(t *Timing) bool { return t.Series.Cache == "hot" }) {
		return "hot"
	}
	return "cold"
}

// recorded are the recorded calls by op, nil where they are not known.
func (rec *Recording) recorded() map[string]int {
	if rec.Measured == nil {
		return nil
	}
	return rec.Measured.Recorded
}

// Doubtful reports whether times are missing or in doubt.
func (rec *Recording) Doubtful() bool { return len(rec.timingLeads()) > 0 }
