package view

import (
	"fmt"
	"path"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/metric"
)

// A Bar is an operator and the effect of its errors.
type Bar struct {
	Name  string          `json:"name"`
	Value *reports.Number `json:"value"`
	Node  int             `json:"node"` // of the first of its calls, -1 if it is of the other run
}

// A Mark is a token of two runs.
type Mark struct {
	ID    int64           `json:"id"`
	Value *reports.Number `json:"value"` // log-probability of this run less that of the other
	Text  string          `json:"text"`
	Nodes []int           `json:"nodes"` // the calls of this run that explain it
	Other []string        `json:"other"` // and those of the other one
}

// AddMetric adds bars for the operators.
func (g *Graph) AddMetric(m *metric.Metric) {
	g.BarsTitle = "KL of " + m.Of.Call.String() + ", each operator alone"
	for _, b := range m.ByOp {
		g.Bars = append(g.Bars, Bar{b.Name, number(b.KL), g.nodeOf(b.Calls[0])})
	}
	g.EffectTitle = "KL alone"
	for _, b := range m.ByCall {
		g.affect(b.Calls, b.KL)
	}
}

// affect sets the effect of the nodes of calls.
func (g *Graph) affect(calls []*step.Call, effect float64) {
	for _, c := range calls {
		if i := g.nodeOf(c); i >= 0 {
			g.Nodes[i].Effect, g.Nodes[i].EffectUnreliable = number(effect), false
		}
	}
}

// AddPair adds a strip of tokens, and bars for the operators and lines of both runs.
func (g *Graph) AddPair(p *metric.Pair) {
	for _, t := range p.Tokens {
		m := Mark{ID: t.ID, Value: number(t.Difference()), Nodes: []int{}, Other: []string{},
			Text: fmt.Sprintf("position %d, token %d: %.6g, other run %.6g; exact %.6g, %.6g; nearer: %s", t.Position,
				t.ID, t.This.LogProb, t.Other.LogProb, t.This.Exact, t.Other.Exact, t.Nearer())}
		for i, c := range t.ExplainedBy {
			if t.ExplainedSides[i] == step.This {
				m.Nodes = append(m.Nodes, g.nodeOf(c))
			} else {
				m.Other = append(m.Other, c.Entry.Rel)
			}
		}
		g.Tokens = append(g.Tokens, m)
	}
	g.BarsTitle = "Mean change of log-probabilities, each operator and line alone"
	g.EffectTitle = "effect on the tokens"
	for _, c := range p.Causes {
		b := Bar{c.Name + " " + path.Base(c.Calls[0].Entry.Location), number(c.MeanAbs), -1}
		if c.Side == step.This {
			b.Node = g.nodeOf(c.Calls[0])
			g.affect(c.Calls, c.MeanAbs)
		} else {
			b.Name += " (other run)"
		}
		g.Bars = append(g.Bars, b)
	}
}

// nodeOf is the node of a call, -1 if it is not in the graph.
func (g *Graph) nodeOf(c *step.Call) int {
	if i, ok := g.at[c]; ok {
		return i
	}
	return -1
}
