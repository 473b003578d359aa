package metric

import (
	"github.com/optool/optool/reports"
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
	Predicted  *reports.Number `json:"predicted_kl"` // of the operators' effects added up
	Routes     *GroupRecord    `json:"routes,omitempty"`
	ByOp       []GroupRecord   `json:"by_op"`
	ByModule   []GroupRecord   `json:"by_module,omitempty"`
	ByDType    []GroupRecord   `json:"by_dtype,omitempty"`
	ByCall     []GroupRecord   `json:"by_call"`
}

// A GroupRecord is what the errors of some calls alone do.
type GroupRecord struct {
	Op      string          `json:"op,omitempty"`
	Module  string          `json:"module,omitempty"`
	Capture string          `json:"capture,omitempty"`
	DType   string          `json:"dtype,omitempty"`
	Calls   int             `json:"calls"`
	KL      *reports.Number `json:"kl"`
	LogProb *reports.Number `json:"logprob"`
	Flips   int             `json:"flips"`
	MaxAbs  *reports.Number `json:"max_abs"`
}

// Record is the metric as it is written to files.
func (m *Metric) Record() *Record {
	r := &Record{Of: m.Of.Call.Entry.Rel, Target: m.Of.Target, Positions: m.Positions, KL: known(m.Total.KL),
		KLMax: known(m.Total.KLMax), LogProb: known(m.Total.LogProb), LogProbAbs: known(m.Total.LogProbAbs),
		Flips: len(m.Total.Flips), FlippedAt: m.Total.Flips, MaxAbs: known(m.Total.MaxAbs),
		Predicted: known(m.Predicted)}
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
	for _, g := range m.ByCall {
		x := record(g)
		x.Capture, x.Op, x.Module = g.Calls[0].Entry.Rel, reports.Name(g.Calls[0].Op), g.Calls[0].Entry.Module
		r.ByCall = append(r.ByCall, x)
	}
	return r
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
