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

// TimingChanges compares two runs series by series, in the order of old, to a resolution
// that is a share of the time.
func TimingChanges(old, cur *Recording, resolution float64) (changes []TimingChange) {
	now := map[TimingKey]*Timing{}
	for _, t := range cur.Timings {
		now[t.Key()] = t
	}
	oldVerdicts, newVerdicts := old.Verdicts(), cur.Verdicts()
	for _, t := range old.Timings {
		k := t.Key()
		if now[k] != nil {
			changes = append(changes, TimingChange{k,
				timing.Compare(t.Series.Samples, now[k].Series.Samples, resolution),
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

// Cells are the cells of a table row: floors, change, what rounds agree within, verdict
// and accuracy.
func (c *TimingChange) Cells() []string {
	within := "-"
	if spread := max(c.OldFloor.Spread, c.NewFloor.Spread); !math.IsInf(spread, 1) {
		within = fmt.Sprintf("%.1f %%", 100*spread)
	}
	return []string{timing.Format(c.OldFloor.Time), timing.Format(c.NewFloor.Time), percent(c.Ratio), within,
		string(c.Verdict), c.Accuracy}
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
		Kind    string         `json:"kind"`
		Capture string         `json:"capture"`
		Op      string         `json:"op"`
		Phase   string         `json:"phase"`
		Cache   string         `json:"cache"`
		Verdict timing.Verdict `json:"verdict"`
		Old     time.Duration  `json:"old_median_ns"`
		New     time.Duration  `json:"new_median_ns"`
		// Of the quickest rounds, and by what share the fourth is slower.
		OldFloor  time.Duration `json:"old_floor_ns"`
		NewFloor  time.Duration `json:"new_floor_ns"`
		OldSpread Number        `json:"old_spread"`
		NewSpread Number        `json:"new_spread"`
		Ratio     Number        `json:"ratio"` // of the floors
		P         Number        `json:"p"`     // that all rounds of the slower missed the floor of the faster by chance
		Accuracy  string        `json:"accuracy"`
	}{"timing_change", c.Capture, c.Op, c.Phase, c.Cache, c.Verdict, c.Old.Median, c.New.Median,
		c.OldFloor.Time, c.NewFloor.Time, Number(c.OldFloor.Spread), Number(c.NewFloor.Spread), Number(c.Ratio),
		Number(c.P), c.Accuracy})
}

// An OpChange sums the floors of an op, one phase and state of the caches.
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
		o.Old += c.OldFloor.Time
		o.New += c.NewFloor.Time
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
