package reports

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/optool/optool/timing"
	"github.com/optool/optool/verdict"
)

// A TimingChange is how a series that two runs measured changed.
type TimingChange struct {
	TimingKey
	timing.Change
	// Accuracy says how the worst verdict of the capture changed, "" unless both runs have
	// one.
	Accuracy string
}

// TimingChanges compares two runs series by series, in the order of old.
func TimingChanges(old, cur *Recording) (changes []TimingChange) {
	now := map[TimingKey]*Timing{}
	for _, t := range cur.Timings {
		now[t.Key()] = t
	}
	oldVerdicts, newVerdicts := old.Verdicts(), cur.Verdicts()
	for _, t := range old.Timings {
		k := t.Key()
		if now[k] != nil {
			changes = append(changes, TimingChange{k, timing.Compare(t.Series.Samples, now[k].Series.Samples),
				accuracyChange(oldVerdicts[k.Capture], newVerdicts[k.Capture])})
		}
	}
	return changes
}

func accuracyChange(old, cur verdict.Verdict) string {
	switch {
	case old == "" || cur == "":
		return ""
	case old == cur:
		return string(cur)
	}
	return string(old) + " -> " + string(cur)
}

// Cells are the cells of a table row: medians, change, p-value, verdict and accuracy.
func (c *TimingChange) Cells() []string {
	p := "-"
	if !math.IsNaN(c.P) {
		p = fmt.Sprintf("%.2g", c.P)
	}
	return []string{timing.Format(c.Old.Median), timing.Format(c.New.Median), percent(c.Ratio), p, string(c.Verdict),
		c.Accuracy}
}

func percent(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100*(ratio-1))
}

// MarshalJSON gives the JSON line.
func (c *TimingChange) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind     string         `json:"kind"`
		Capture  string         `json:"capture"`
		Op       string         `json:"op"`
		Phase    string         `json:"phase"`
		Cache    string         `json:"cache"`
		Verdict  timing.Verdict `json:"verdict"`
		Old      time.Duration  `json:"old_median_ns"`
		New      time.Duration  `json:"new_median_ns"`
		Ratio    Number         `json:"ratio"`
		Gap      Number         `json:"gap"`      // between the intervals, over the old median
		P        Number         `json:"p"`        // of the Mann-Whitney U test
		OldCalm  int            `json:"old_calm"` // samples that did not wait for a processor
		NewCalm  int            `json:"new_calm"`
		Accuracy string         `json:"accuracy"`
	}{"timing_change", c.Capture, c.Op, c.Phase, c.Cache, c.Verdict, c.Old.Median, c.New.Median, Number(c.Ratio),
		Number(c.Gap), Number(c.P), c.OldCalm, c.NewCalm, c.Accuracy})
}

// An OpChange sums the medians of an op, one phase and state of the caches.
type OpChange struct {
	Name     string
	Captures int
	Old, New time.Duration
	Verdicts map[timing.Verdict]int
}

// ByOp are the sums of the ops that were measured in more than one capture, in order of
// appearance.
func ByOp(changes []TimingChange) (ops []*OpChange) {
	byName := map[string]*OpChange{}
	var all []*OpChange
	for _, c := range changes {
		name := c.Op + " " + c.Phase + " " + c.Cache
		o := byName[name]
		if o == nil {
			o = &OpChange{Name: name, Verdicts: map[timing.Verdict]int{}}
			byName[name] = o
			all = append(all, o)
		}
		o.Captures++
		o.Old += c.Old.Median
		o.New += c.New.Median
		o.Verdicts[c.Verdict]++
	}
	for _, o := range all {
		if o.Captures > 1 {
			ops = append(ops, o)
		}
	}
	return ops
}

// Change is the relative change as a table shows it.
func (o *OpChange) Change() string {
	if o.Old <= 0 {
		return "-"
	}
	return percent(float64(o.New) / float64(o.Old))
}
