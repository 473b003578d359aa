package reports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/run/folder"
	"github.com/optool/optool/timing"
)

// A TimingChange is how a series that two runs measured changed.
type TimingChange struct {
	TimingKey
	timing.Change
	// Accuracy says how the worst verdict of the capture changed, "" unless both runs have
	// one.
	Accuracy string
	// Doubts are those of the old series and the new one, if they were measured in turn; "" for none.
	Doubts [2]string
}

// TimingChanges compares two runs series by series, in the order of old, to a resolution that is a share of the time.
// Series of one call belong together. So do those of the same work in recordings of two days: see sameWork.
func TimingChanges(old, cur *Recording, resolution float64) (changes []TimingChange) {
	now := sameWork(old.Timings, cur.Timings)
	oldVerdicts, newVerdicts := old.Verdicts(), cur.Verdicts()
	for _, t := range old.Timings {
		if n := now[t]; n != nil {
			changes = append(changes, TimingChange{TimingKey: n.Key(),
				Change:   timing.Compare(t.Series.Samples, n.Series.Samples, resolution),
				Accuracy: accuracyChange(oldVerdicts[t.Capture], newVerdicts[n.Capture])})
		}
	}
	return changes
}

// GoneTimings are the series of the old run that TimingChanges pairs with none.
func GoneTimings(old, cur *Recording) (gone []*Timing) {
	now := sameWork(old.Timings, cur.Timings)
	for _, t := range old.Timings {
		if now[t] == nil {
			gone = append(gone, t)
		}
	}
	return gone
}

// sameWork finds for series of the old run those of the new one: the same call. The paths of two recordings differ in
// process numbers and dates; there it is the n-th call of the operator in its folder with inputs of these dtypes and
// shapes. If one recording has more such calls than the other, it is not known which is which.
func sameWork(old, cur []*Timing) map[*Timing]*Timing {
	of := map[*Timing]*Timing{}
	now := map[TimingKey]*Timing{}
	for _, t := range cur {
		now[t.Key()] = t
	}
	type work struct {
		TimingKey // its Capture is the folder
		shapes    string
	}
	left := func(ts []*Timing, found func(*Timing) bool) map[work][]*Timing {
		groups := map[work][]*Timing{}
		for _, t := range ts {
			if !found(t) {
				w := work{t.Key(), t.Shapes}
				w.Capture = folder.Of(t.Capture, t.Op, -1, -1).Folder
				groups[w] = append(groups[w], t)
			}
		}
		for _, g := range groups {
			slices.SortStableFunc(g, func(a, b *Timing) int {
				if a.ForwardID == nil || b.ForwardID == nil {
					return 0
				}
				return cmp.Compare(*a.ForwardID, *b.ForwardID)
			})
		}
		return groups
	}
	taken := map[*Timing]bool{}
	before := left(old, func(t *Timing) bool {
		n := now[t.Key()]
		if n != nil {
			of[t], taken[n] = n, true
		}
		return n != nil
	})
	for w, news := range left(cur, func(t *Timing) bool { return taken[t] }) {
		if len(before[w]) == len(news) {
			for i, t := range before[w] {
				of[t] = news[i]
			}
		}
	}
	return of
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

// Cells are the cells of a table row: times, their change, what rounds agree within or the
// interval of the change, verdict and accuracy.
func (c *TimingChange) Cells() []string {
	old, cur := c.times()
	ratio := c.Ratio
	if c.Interval != nil && old > 0 { // the estimate is not the ratio of the medians
		ratio = float64(cur) / float64(old)
	}
	within := "-"
	if i := c.Interval; i != nil && !math.IsInf(i.High, 1) {
		within = percent(i.Low) + " to " + percent(i.High)
	} else if spread := max(c.OldFloor.Spread, c.NewFloor.Spread); i == nil && !math.IsInf(spread, 1) {
		within = fmt.Sprintf("%.1f %%", 100*spread)
	}
	return []string{timing.Format(old), timing.Format(cur), percent(ratio), within, string(c.Verdict), c.Accuracy}
}

// times are what stands for the series: floors, or medians of rounds if they were measured in turn.
func (c *TimingChange) times() (old, cur time.Duration) {
	if c.OldRound > 0 && c.NewRound > 0 {
		return c.OldRound, c.NewRound
	}
	if c.Interval != nil { // few rounds, or lines of an older optool
		return c.Old.Median, c.New.Median
	}
	return c.OldFloor.Time, c.NewFloor.Time
}

func percent(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100*(ratio-1))
}

// Result is the change as a result that reports can show: a failure if the call got slower by more than the threshold,
// a share of the time. A change that cannot be told is skipped.
func (c *TimingChange) Result(threshold float64) *Result {
	cells := c.Cells()
	r := &Result{Capture: c.Capture, Op: c.Op, Phase: c.Phase, Target: c.Cache + " cache", Verdict: verdict.Pass,
		Reason: fmt.Sprintf("%s: %s, before %s (%s)", strings.ToLower(string(c.Verdict)), cells[1], cells[0], cells[2])}
	switch {
	case c.Verdict == timing.Slower && c.Ratio-1 > threshold:
		r.Verdict = verdict.Fail
	case c.Verdict == timing.Ambiguous:
		r.Verdict = verdict.Skipped
		if doubt := c.Doubt(); doubt != "" {
			r.Reason += ", with " + doubt
		}
	}
	return r
}

// DoubtText names the sides that are in doubt, and why; "" for none. That there were few runs is the same for all.
func (c *TimingChange) DoubtText(names [2]string) string {
	var parts []string
	for i, doubt := range c.Doubts {
		if kind, _, _ := strings.Cut(doubt, ":"); kind != "" && kind != "few" {
			parts = append(parts, names[i]+" "+kind)
		}
	}
	return strings.Join(parts, ", ")
}

// OldAndNew name the sides of two runs, one after the other.
var OldAndNew = [2]string{"old", "new"}

// Rivals name the two devices of a run that measured them in turn, the other first: by their files, and as many folders
// as it takes to tell them apart.
func (r *Run) Rivals() [2]string {
	a, b := strings.Split(r.Against, "/"), strings.Split(r.Device, "/")
	for n := 1; n <= max(len(a), len(b)); n++ {
		x, y := strings.Join(a[max(0, len(a)-n):], "/"), strings.Join(b[max(0, len(b)-n):], "/")
		if x != y {
			return [2]string{x, y}
		}
	}
	return OldAndNew
}

// ChangeSheets are the tables of how the two devices of a run compare; none for a run of one.
func (rec *Recording) ChangeSheets() []Sheet {
	if len(rec.Changes) == 0 {
		return nil
	}
	return []Sheet{TimingChangeSheet(rec.Changes, rec.Run.Rivals())}
}

// rivalFacts say how the two devices of a run compare.
func (rec *Recording) rivalFacts() (facts [][2]string) {
	if len(rec.Changes) == 0 {
		return nil
	}
	names, counts := rec.Run.Rivals(), map[timing.Verdict]int{}
	for _, c := range rec.Changes {
		counts[c.Verdict]++
	}
	facts = append(facts, [2]string{names[1] + " against " + names[0], ChangesText(len(rec.Changes),
		counts[timing.Same], counts[timing.Faster], counts[timing.Slower], counts[timing.Ambiguous])})
	var other []string
	for _, c := range rec.Changes {
		other = append(other, c.Doubts[0])
	}
	if text := doubted(other); text != "" {
		facts = append(facts, [2]string{"warning", "of " + names[0] + ", " + text})
	}
	return facts
}

// ChangesText counts changes by their verdicts, in a sentence.
func ChangesText(compared, same, faster, slower, ambiguous int) string {
	return fmt.Sprintf("%d compared: %d same, %d faster, %d slower, %d ambiguous", compared, same, faster, slower,
		ambiguous)
}

// TimingChangeSheet has a row for each change; names are those of the two sides.
func TimingChangeSheet(changes []TimingChange, names [2]string) Sheet {
	return Sheet{Name: "times", Columns: []string{"op", "capture", "phase", "cache", names[0] + "_ns", names[1] + "_ns",
		"ratio", "within", "verdict", "accuracy", "doubt"}, Rows: func(yield func([]any) bool) {
		for i := range changes {
			c := &changes[i]
			old, cur := c.times()
			if !yield([]any{c.Op, c.Capture, c.Phase, c.Cache, old.Nanoseconds(), cur.Nanoseconds(), c.Ratio,
				c.Cells()[3], string(c.Verdict), c.Accuracy, c.DoubtText(names)}) {
				return
			}
		}
	}}
}

// A timingChangeLine is the JSON line of a TimingChange.
type timingChangeLine struct {
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
	Ratio     Number        `json:"ratio"` // of the floors, or of rounds measured in turn
	P         Number        `json:"p"`     // that chance made the slower slower
	// What the ratio of rounds measured in turn is certain to be between; null without such.
	Interval []Number `json:"interval"`
	Accuracy string   `json:"accuracy"`
	// Medians of rounds measured in turn, and why a series should not be trusted.
	OldRound time.Duration `json:"old_round_ns,omitempty"`
	NewRound time.Duration `json:"new_round_ns,omitempty"`
	OldDoubt string        `json:"old_doubt,omitempty"`
	NewDoubt string        `json:"new_doubt,omitempty"`
}

// MarshalJSON gives the JSON line.
func (c *TimingChange) MarshalJSON() ([]byte, error) {
	l := timingChangeLine{"timing_change", c.Capture, c.Op, c.Phase, c.Cache, c.Verdict, c.Old.Median, c.New.Median,
		c.OldFloor.Time, c.NewFloor.Time, Number(c.OldFloor.Spread), Number(c.NewFloor.Spread), Number(c.Ratio),
		Number(c.P), nil, c.Accuracy, c.OldRound, c.NewRound, c.Doubts[0], c.Doubts[1]}
	if i := c.Interval; i != nil {
		l.Interval = []Number{Number(i.Low), Number(i.High)}
	}
	return json.Marshal(l)
}

// UnmarshalJSON reads what MarshalJSON writes: of the series their medians and floors alone.
func (c *TimingChange) UnmarshalJSON(line []byte) error {
	var l timingChangeLine
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	*c = TimingChange{TimingKey{l.Capture, l.Op, l.Phase, l.Cache}, timing.Change{
		OldRound: l.OldRound, NewRound: l.NewRound,
		Verdict: l.Verdict, Old: timing.Summary{Median: l.Old}, New: timing.Summary{Median: l.New},
		OldFloor: timing.Floor{Time: l.OldFloor, Spread: float64(l.OldSpread)},
		NewFloor: timing.Floor{Time: l.NewFloor, Spread: float64(l.NewSpread)},
		Ratio:    float64(l.Ratio), P: float64(l.P),
	}, l.Accuracy, [2]string{l.OldDoubt, l.NewDoubt}}
	switch len(l.Interval) {
	case 0:
	case 2:
		c.Interval = &timing.Interval{Low: float64(l.Interval[0]), High: float64(l.Interval[1])}
	default:
		return fmt.Errorf("interval: want two numbers, got %d", len(l.Interval))
	}
	return nil
}

// An OpChange sums the times of an op, one phase and state of the caches.
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
		x, y := c.times()
		o.Old, o.New = o.Old+x, o.New+y
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
