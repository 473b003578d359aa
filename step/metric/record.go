package metric

import (
	"math"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// A Record is the metric in the summary of a step.
type Record struct {
	Of         string          `json:"of"`
	Target     string          `json:"target"`
	Positions  int             `json:"positions"`
	KL         *reports.Number `json:"kl"` // mean over positions of KL(exact || recorded)
	KLMax      *reports.Number `json:"kl_max"`
	LogProb    *reports.Number `json:"logprob"` // mean change of the tokens' log-probability, recorded minus exact
	LogProbAbs *reports.Number `json:"logprob_abs"`
	Flips      int             `json:"flips"`
	FlippedAt  []int           `json:"flipped_at,omitempty"`
	MaxAbs     *reports.Number `json:"max_abs"`
	NonFinite  int             `json:"nonfinite,omitempty"` // positions without a distribution, in no number
	Predicted  *reports.Number `json:"predicted_kl"`        // of the operators' effects added up
	Routes     *GroupRecord    `json:"routes,omitempty"`
	RoutesKept string          `json:"routes_kept,omitempty"` // why the recorded routes are kept
	Cut        *CutRecord      `json:"cut,omitempty"`
	ByOp       []GroupRecord   `json:"by_op"`
	ByModule   []GroupRecord   `json:"by_module,omitempty"`
	ByDType    []GroupRecord   `json:"by_dtype,omitempty"`
	ByCall     []GroupRecord   `json:"by_call"`
	Others     *GroupRecord    `json:"others,omitempty"`     // operators that were measured together
	Unmeasured int             `json:"unmeasured,omitempty"` // calls that were not measured one by one
	Value      *reports.Number `json:"value,omitempty"`      // of a metric of the user's own
	Imagined   []GroupRecord   `json:"imagined,omitempty"`
}

// A CutRecord says of how many inputs the exact run takes the recorded elements, because calls that were not recorded
// made them: effects of calls before them do not reach the result through them.
type CutRecord struct {
	Inputs int           `json:"inputs"`
	First  reports.Place `json:"first"`
	Side   step.Side     `json:"side,omitempty"` // of two runs
}

func cutRecord(cuts []*step.Value, side step.Side) *CutRecord {
	if len(cuts) == 0 {
		return nil
	}
	return &CutRecord{len(cuts), reports.Place{Capture: cuts[0].Call.Entry.Rel, Target: cuts[0].Target}, side}
}

// A GroupRecord is what the errors of some calls alone do.
type GroupRecord struct {
	Op      string          `json:"op,omitempty"`
	Module  string          `json:"module,omitempty"`
	Capture string          `json:"capture,omitempty"`
	DType   string          `json:"dtype,omitempty"`
	With    string          `json:"with,omitempty"` // of an imagined run: what is computed otherwise
	Why     string          `json:"why,omitempty"`  // why its numbers are not known
	Calls   int             `json:"calls"`
	KL      *reports.Number `json:"kl"`
	LogProb *reports.Number `json:"logprob"`
	Flips   int             `json:"flips"`
	MaxAbs  *reports.Number `json:"max_abs"`
	// Rerouted counts tokens that go to other experts in an imagined run.
	Rerouted int `json:"rerouted,omitempty"`
	// KLRoutesKept is the KL of such a run with the recorded routes; NearTies are choices of experts in it that
	// rounding may decide otherwise.
	KLRoutesKept *reports.Number `json:"kl_routes_kept,omitempty"`
	NearTies     []TieRecord     `json:"near_ties,omitempty"`
	// RoutesKept says why an imagined run keeps the recorded routes.
	RoutesKept string `json:"routes_kept,omitempty"`
}

// A TieRecord is a choice of experts whose last one and the next are as good within rounding.
type TieRecord struct {
	Capture string          `json:"capture"`
	Row     int             `json:"row"`    // the token
	Margin  *reports.Number `json:"margin"` // relative
}

// Record is the metric as it is written to files.
func (m *Metric) Record() *Record {
	r := &Record{Of: m.Of.Call.Entry.Rel, Target: m.Of.Target, Positions: m.Positions, KL: known(m.Total.KL),
		KLMax: known(m.Total.KLMax), LogProb: known(m.Total.LogProb), LogProbAbs: known(m.Total.LogProbAbs),
		Flips: len(m.Total.Flips), FlippedAt: m.Total.Flips, MaxAbs: known(m.Total.MaxAbs),
		NonFinite: m.Total.NonFinite, Predicted: known(m.Predicted), RoutesKept: firstOf(m.Strays),
		Cut: cutRecord(m.Cuts, "")}
	if m.Routes != nil {
		g := record(&Group{Effect: *m.Routes})
		r.Routes = &g
	}
	for _, g := range m.ByOp {
		x := record(g)
		x.Op = g.Name
		r.ByOp = append(r.ByOp, x)
	}
	for _, g := range m.ByModule {
		x := record(g)
		x.Module = g.Name
		r.ByModule = append(r.ByModule, x)
	}
	for _, g := range m.ByDType {
		r.ByDType = append(r.ByDType, record(g))
	}
	if m.Others != nil {
		x := record(m.Others)
		r.Others = &x
	}
	r.Unmeasured = m.Unmeasured
	if m.Value != nil {
		r.Value = reports.Num(*m.Value)
	}
	for _, i := range m.Imagined {
		x := record(&Group{Effect: i.Effect})
		x.With, x.Why, x.Calls, x.Rerouted, x.RoutesKept = i.Text, i.Why, i.Calls, i.Rerouted, firstOf(i.Strays)
		if i.Kept != nil {
			x.KLRoutesKept = known(i.Kept.KL)
		}
		for _, t := range i.Ties {
			x.NearTies = append(x.NearTies, TieRecord{t.Call.Entry.Rel, t.Row, known(t.Margin)})
		}
		r.Imagined = append(r.Imagined, x)
	}
	for _, g := range m.ByCall {
		x := record(g)
		x.Capture, x.Op, x.Module = g.Calls[0].Entry.Rel, reports.Name(g.Calls[0].Op), g.Calls[0].Entry.Module
		r.ByCall = append(r.ByCall, x)
	}
	return r
}

// firstOf names the first of breaks and its reason; empty if there are none.
func firstOf(b []step.Break) string {
	if len(b) == 0 {
		return ""
	}
	return b[0].Call.Entry.Rel + ": " + b[0].Reason
}

func record(g *Group) GroupRecord {
	return GroupRecord{DType: g.DType, Calls: len(g.Calls), KL: known(g.KL), LogProb: known(g.LogProb),
		Flips: len(g.Flips), MaxAbs: known(g.MaxAbs)}
}

// known is a number of a record, null where it is not known.
func known(x float64) *reports.Number {
	if x != x {
		return nil
	}
	return reports.Num(x)
}

// An EffectRecord is what a call alone does, in the record of the call.
type EffectRecord struct {
	KL      *reports.Number `json:"kl"`
	LogProb *reports.Number `json:"logprob"`
	Flips   int             `json:"flips"`
	MaxAbs  *reports.Number `json:"max_abs"`
}

// Mark writes the effects of single calls to them, for their records.
func (m *Metric) Mark() {
	for _, g := range m.ByCall {
		e := g.Effect
		g.Calls[0].OnResult = EffectRecord{known(e.KL), known(e.LogProb), len(e.Flips), known(e.MaxAbs)}
	}
}

// A TokenRecord is a token of two runs.
type TokenRecord struct {
	Kind           string          `json:"kind"` // "token"
	Position       int             `json:"position"`
	ID             int64           `json:"id"`
	LogProb        *reports.Number `json:"logprob"`
	Against        *reports.Number `json:"against"`
	Exact          *reports.Number `json:"exact"`
	ExactAgainst   *reports.Number `json:"exact_against"`
	Nearer         step.Side       `json:"nearer,omitempty"`
	ExplainedBy    []string        `json:"explained_by"`
	ExplainedSides []step.Side     `json:"explained_sides"`
}

// Record is the token as it is written to files.
func (t *Token) Record() *TokenRecord {
	r := &TokenRecord{Kind: "token", Position: t.Position, ID: t.ID, LogProb: known(t.This.LogProb),
		Against: known(t.Other.LogProb), Exact: known(t.This.Exact), ExactAgainst: known(t.Other.Exact),
		Nearer: t.Nearer(), ExplainedBy: []string{}, ExplainedSides: t.ExplainedSides}
	if r.ExplainedSides == nil {
		r.ExplainedSides = []step.Side{}
	}
	for _, c := range t.ExplainedBy {
		r.ExplainedBy = append(r.ExplainedBy, c.Entry.Rel)
	}
	return r
}

// A PairRecord is what two runs of the same tokens differ by, in the summary of a step. Ratios are importance
// ratios: the probability in the other run, the training step, by that in this one, the rollout.
type PairRecord struct {
	Tokens int `json:"tokens"`
	// NonFinite counts tokens that are in no number: one of the runs gives them no finite log-probability.
	NonFinite int             `json:"nonfinite,omitempty"`
	Mean      *reports.Number `json:"mean"` // of this run's log-probability less the other's
	MeanAbs   *reports.Number `json:"mean_abs"`
	MaxAbs    *reports.Number `json:"max_abs"`
	Worst     int             `json:"worst"` // position of the largest
	K3        *reports.Number `json:"k3"`    // mean of r - 1 - log r, an estimate of the KL divergence
	RatioMin  *reports.Number `json:"ratio_min"`
	RatioMax  *reports.Number `json:"ratio_max"`
	Clipped   *reports.Number `json:"clipped"` // share of tokens whose ratio is not within 0.2 of 1
	Program   *reports.Number `json:"program"` // mean absolute difference of the exact log-probabilities
	// RoutesKept says why the exact runs keep the recorded routes.
	RoutesKept string         `json:"routes_kept,omitempty"`
	Cuts       []*CutRecord   `json:"cuts,omitempty"`
	Nearer     map[string]int `json:"nearer"` // tokens by the run that is nearer to its exact value, or "tie"
	Causes     []CauseRecord  `json:"causes"`
}

// A CauseRecord is what the errors of the calls of one operator and line do.
type CauseRecord struct {
	Side     step.Side       `json:"side"`
	Op       string          `json:"op"`
	Location string          `json:"location,omitempty"`
	Module   string          `json:"module,omitempty"`
	DType    string          `json:"dtype,omitempty"`
	Capture  string          `json:"capture"`
	Calls    int             `json:"calls"`
	MeanAbs  *reports.Number `json:"mean_abs"`
}

// clip is how far ratios may be from 1 before they are clipped (PPO).
const clip = 0.2

// Record is the difference as it is written to files.
func (p *Pair) Record() *PairRecord {
	r := &PairRecord{Tokens: len(p.Tokens), NonFinite: p.NonFinite(), MeanAbs: known(p.MeanAbs()),
		Program: known(p.Program), RoutesKept: firstOf(p.Strays),
		Nearer: map[string]int{string(step.This): 0, string(step.Other): 0, string(Tie): 0},
		Causes: []CauseRecord{}}
	for i, s := range p.Sides {
		if s == nil {
			continue
		}
		if c := cutRecord(s.Cuts, sideOf(i)); c != nil {
			r.Cuts = append(r.Cuts, c)
		}
	}
	n := float64(len(p.Tokens) - r.NonFinite)
	mean, largest, k3, low, high, clipped := 0.0, -1.0, 0.0, math.Inf(1), 0.0, 0.0
	for _, t := range p.Tokens {
		d := t.Difference()
		if d-d != 0 {
			continue
		}
		ratio := math.Exp(-d)
		mean += d / n
		k3 += (ratio - 1 + d) / n
		low, high = min(low, ratio), max(high, ratio)
		if math.Abs(ratio-1) > clip {
			clipped += 1 / n
		}
		if math.Abs(d) > largest {
			largest, r.Worst = math.Abs(d), t.Position
		}
		if n := t.Nearer(); n != "" {
			r.Nearer[string(n)]++
		}
	}
	r.Mean, r.MaxAbs, r.K3, r.RatioMin, r.RatioMax = known(mean), known(largest), known(k3), known(low), known(high)
	r.Clipped = known(clipped)
	for _, c := range p.Causes {
		w := c.worst()
		r.Causes = append(r.Causes, CauseRecord{Side: c.Side, Op: reports.Name(w.Op), Location: w.Entry.Location,
			Module: w.Entry.Module, DType: c.DType, Capture: w.Entry.Rel, Calls: len(c.Calls),
			MeanAbs: known(c.MeanAbs)})
	}
	return r
}
