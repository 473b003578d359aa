package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/step"
)

// A Graph is the dataflow of a trace's forward passes, as JSON and the page have it.
type Graph struct {
	Title   string `json:"title"`
	Verdict string `json:"verdict"` // one sentence
	// Result is the verdict on the step, and Judgement says it in a sentence for everyone.
	Result    string    `json:"result"`
	Judgement string    `json:"judgement"`
	Nodes     []Node    `json:"nodes"` // in order of execution, process by process
	Edges     []Edge    `json:"edges"`
	Boxes     []Box     `json:"boxes"` // a box comes before those in it
	Findings  []Finding `json:"findings"`
	Losses    []Loss    `json:"losses"`
	// Effect is the first of Effects that is about the first fault.
	Effect string `json:"effect_of_fault,omitempty"`
	// Effects say what the faults do to losses, and Unjudged which functions of the program were not judged.
	Effects  []string `json:"effects,omitempty"`
	Unjudged []string `json:"unjudged,omitempty"`
	// Faults is a table of what is wrong, the titles first, and FaultsTitle its title.
	Faults      [][]string `json:"faults,omitempty"`
	FaultsTitle string     `json:"faults_title,omitempty"`
	// Send is the command that packs the first wrong call for whoever repairs it, and SendText says what it does.
	Send     string `json:"send,omitempty"`
	SendText string `json:"send_text,omitempty"`
	// Way is the shortest way of the first fault to the loss, as indices of nodes.
	Way []int `json:"way,omitempty"`
	// Bars and Tokens are what was measured on results that are no losses.
	Bars      []Bar  `json:"bars,omitempty"`
	BarsTitle string `json:"bars_title,omitempty"`
	Tokens    []Mark `json:"tokens,omitempty"`
	// EffectTitle says what Node.Effect is.
	EffectTitle string `json:"effect_title"`
	// at is the node of each call.
	at map[*step.Call]int
}

// A Node is a call.
type Node struct {
	Capture  string          `json:"capture"`
	Op       string          `json:"op"`
	ID       int             `json:"id"`  // forward id
	Box      int             `json:"box"` // the innermost box it is in, -1 for none
	DType    string          `json:"dtype,omitempty"`
	Shape    string          `json:"shape,omitempty"`
	Module   string          `json:"module,omitempty"`
	Location string          `json:"location,omitempty"`
	Verdict  string          `json:"verdict"`
	Backward string          `json:"backward,omitempty"` // the worst verdict of the gradients
	Reason   string          `json:"reason,omitempty"`
	Device   string          `json:"device,omitempty"` // what a device made of it: "forward pass, backward fail: ..."
	Effect   *reports.Number `json:"effect,omitempty"`
	// EffectUnreliable says that Effect may have another size and another sign.
	EffectUnreliable bool            `json:"effect_unreliable,omitempty"`
	LocalError       *reports.Number `json:"local_error,omitempty"`
	TotalError       *reports.Number `json:"total_error,omitempty"`
	// Leaves are inputs that no call made: "input[1] parameter float32 [8 8]".
	Leaves []string `json:"leaves,omitempty"`
	Values []Value  `json:"values,omitempty"` // its results and gradients
	Repro  string   `json:"repro,omitempty"`  // the command that runs it again
}

// A Value is a result or a gradient of a call, and how it compares with the reference.
type Value struct {
	Target   string          `json:"target"`
	Type     string          `json:"type,omitempty"` // dtype and shape
	Verdict  string          `json:"verdict"`
	MaxULP   *reports.Number `json:"max_ulp,omitempty"`
	WorstULP *reports.Number `json:"worst_ulp,omitempty"`   // of the worst element
	Ratio    *reports.Number `json:"bound_ratio,omitempty"` // the error over the bound: at most 1 if it passed
	Actual   json.RawMessage `json:"actual,omitempty"`      // the worst element
	Expected json.RawMessage `json:"expected,omitempty"`
}

// An Edge is an input that a call made; From and To are indices of nodes.
type Edge struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Target string `json:"target"`
	Type   string `json:"type,omitempty"` // dtype and shape
	How    string `json:"how"`
	// Gradient reports that To reads a gradient that the backward pass of From made.
	Gradient bool `json:"gradient,omitempty"`
}

// A Finding is a finding about a node, or about none that the graph has (-1).
type Finding struct {
	Rule   string `json:"rule"`
	Node   int    `json:"node"`
	Target string `json:"target"`
	Reason string `json:"reason"`
	// Between says, of what is no fault of the node, between what it is; From is the other node, if there is one.
	Between string `json:"between,omitempty"`
	From    *int   `json:"from,omitempty"`
	// Note says that a function of the program is in the place of torch's.
	Note string `json:"note,omitempty"`
	// Parameter is the name of the parameter that the value is about, "" for none.
	Parameter string `json:"parameter,omitempty"`
	// Effect, of a fault behind the loss, says what it does to losses.
	Effect string `json:"effect,omitempty"`
	// Like is the finding that this one is like, as an index; nil of the first of its kind.
	Like *int `json:"like,omitempty"`
}

// A Loss is what became of a step's loss.
type Loss struct {
	Node      int             `json:"node"`
	Captured  *reports.Number `json:"captured"`
	Exact     *reports.Number `json:"exact"`
	Predicted *reports.Number `json:"predicted"`
}

func number(x float64) *reports.Number {
	if math.IsNaN(x) {
		return nil
	}
	return reports.Num(x)
}

// NewGraph is the graph of a trace. repro is the command that runs a call again.
func NewGraph(t *step.Trace, repro func(*step.Call) string) *Graph {
	j := judge(t)
	g := &Graph{Title: "optool step: " + j.text, Verdict: verdictLine(t), Result: string(j.verdict), Judgement: j.text,
		Nodes: []Node{}, Edges: []Edge{}, Boxes: []Box{}, Findings: []Finding{}, EffectTitle: "effect on the loss",
		at: map[*step.Call]int{}}
	at := g.at
	for _, p := range t.Processes {
		for _, c := range p.Calls {
			at[c] = len(g.Nodes)
			n := node(c)
			n.Repro = repro(c)
			g.Nodes = append(g.Nodes, n)
		}
		for _, s := range p.Steps {
			g.Losses = append(g.Losses, Loss{at[s.Loss], number(s.Captured), number(s.Exact), number(s.Predicted)})
		}
	}
	for _, c := range t.Calls() {
		for _, v := range c.Inputs {
			if w := v.From.Value; w != nil {
				g.Edges = append(g.Edges, Edge{at[w.Call], at[c], v.Target, typeOf(v), string(v.From.How),
					w.Kind == capture.GradInputs || w.Kind == capture.GradOutputs})
				continue
			}
			n := &g.Nodes[at[c]]
			n.Leaves = append(n.Leaves, v.Target+" "+cmp.Or(v.From.Role, string(v.From.How))+" "+typeOf(v))
		}
	}
	for _, w := range t.Wrapped() {
		g.Unjudged = append(g.Unjudged, w.What)
	}
	g.addBoxes(t)
	heads, kinds := map[*step.Finding]int{}, map[*step.Finding]step.Kind{}
	for _, k := range t.Kinds() {
		kinds[k[0]] = k
		for _, f := range k[1:] {
			heads[f] = slices.Index(t.Findings, k[0])
		}
	}
	for _, f := range t.Findings {
		i, ok := at[f.Call]
		if !ok {
			i = -1
		}
		text := explained(f)
		var like *int
		if n, ok := heads[f]; ok {
			like = &n
		} else {
			text = explained(kinds[f].Explained())
		}
		found := Finding{Rule: string(f.Rule), Node: i, Target: f.Target, Reason: text, Between: f.Between(),
			Note: replacedNote(f), Parameter: f.Parameter(), Like: like}
		var other *step.Call
		if f.From != nil {
			other = f.From.Call
		}
		if _, later := f.BetweenPasses(); later != nil {
			other = later
		}
		if found.Between != "" && other != nil {
			if from, ok := at[other]; ok && from != i {
				found.From = &from
			}
		}
		g.Findings = append(g.Findings, found)
	}
	if f := t.First(); f != nil && f.Call.Step != nil && !f.InBackward() {
		for _, c := range f.Way(f.Call.Step.Loss) {
			g.Way = append(g.Way, at[c])
		}
	}
	return g
}

// AddMoved says what the faults do to losses, and at each fault behind a loss what that does, in the words of Screen.
func (g *Graph) AddMoved(t *step.Trace, x Extra) {
	if g.Send = x.Send; g.Send != "" {
		_, g.SendText, _ = strings.Cut(sendText(t, x), x.Send+" ")
	}
	if s := t.MainStep(); s != nil {
		var b strings.Builder
		b.WriteString(loss(t, s, x))
		g.Effects = append(slices.Collect(strings.Lines(b.String())), x.Imagine...)
		if f := t.First(); f != nil {
			b.Reset()
			without(&b, s, x)
			effect, _, _ := strings.Cut(b.String(), "\n")
			g.Effect = reports.OneLine(effect)
		}
	}
	for i := range g.Effects {
		g.Effects[i] = reports.OneLine(strings.TrimSuffix(g.Effects[i], "\n"))
	}
	for i, f := range t.Findings {
		if !f.IsFault() || !f.IsBehind() {
			continue
		}
		text := "none on this loss; what it does to the next loss by itself was not computed"
		if f == t.First() {
			var b strings.Builder
			without(&b, f.Call.Step, x)
			text = strings.ReplaceAll(strings.TrimSpace("none on this loss\n"+b.String()), "\n", "; ")
		}
		g.Findings[i].Effect = text
	}
}

// AddRecording says which operators are wrong and what was not judged, in the words of other reports.
func (g *Graph) AddRecording(rec *reports.Recording) {
	if faults := rec.Faults(); len(faults) > 0 {
		g.Faults, g.FaultsTitle = reports.FaultTable(faults), reports.FaultsTitle(faults)
	}
	g.Unjudged = append(g.Unjudged, rec.Told()...)
}

// typeOf is the dtype and shape of a value.
func typeOf(v *step.Value) string { return v.DType.String() + " " + fmt.Sprint(v.Shape) }

func node(c *step.Call) Node {
	n := Node{Capture: c.Entry.Rel, Op: c.Op, ID: c.Entry.ID, Module: c.Entry.Module, Location: c.Entry.Location,
		Verdict: string(c.Verdict), Effect: number(c.Effect), LocalError: number(c.LocalError),
		TotalError: number(c.TotalError), EffectUnreliable: c.EffectUnreliable()}
	if len(c.Outputs) > 0 {
		n.DType = c.DType().String()
		n.Shape = fmt.Sprint(c.Outputs[0].Shape)
	}
	for _, r := range c.Results {
		if n.Reason == "" && r.Verdict != verdict.Skipped {
			n.Reason = strings.TrimSpace(r.Target + " " + r.Reason)
		}
	}
	for _, r := range c.Checks {
		v := Value{Target: r.Target, Verdict: string(r.Verdict), MaxULP: number(r.MaxULP),
			WorstULP: number(r.WorstULP)}
		if w := c.Value(r.Target); w != nil {
			v.Type = typeOf(w)
		}
		if r.BoundRatio > 0 {
			v.Ratio = number(r.BoundRatio)
		}
		if r.Verdict != verdict.Pass {
			v.Actual, v.Expected = results.Value(r.Actual), results.Value(r.Expected)
		}
		n.Values = append(n.Values, v)
	}
	for _, r := range c.Reruns() {
		n.Device += fmt.Sprintf(", %s %s", r.Phase, r.Verdict)
		if r.Reason != "" {
			n.Device += ": " + r.Reason
		}
		if r.Instead != "" {
			n.Device += "; " + r.Instead
		}
	}
	n.Device = strings.TrimPrefix(n.Device, ", ")
	if c.HasBackward() {
		n.Verdict, n.Backward = string(c.ForwardVerdict()), string(c.BackwardVerdict())
	}
	return n
}

// verdictLine is the trace in one sentence.
func verdictLine(t *step.Trace) string {
	if f := t.First(); f != nil {
		return strings.ToUpper(string(f.Rule)) + ": " + explained(f)
	}
	for _, f := range t.Findings {
		if f.Rule == verdict.Drift {
			return "DRIFT: " + explained(f)
		}
	}
	return nothing(t)
}

// WriteJSON writes the graph.
func (g *Graph) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(g)
}

// Around is the part of the graph within some calls of a node, in both directions
// of the order of execution, as indices.
func (g *Graph) around(at, distance int) (from, to int) {
	return max(0, at-distance), min(len(g.Nodes), at+distance+1)
}

// A Region is a part of the graph: the calls of nodes From to To-1.
type Region struct{ From, To int }

// RegionAround is the calls near the first finding, or before the first loss if
// there is none.
func (g *Graph) RegionAround(distance int) Region {
	at := len(g.Nodes) - 1
	if len(g.Losses) > 0 {
		at = g.Losses[0].Node
	}
	if len(g.Findings) > 0 && g.Findings[0].Node >= 0 {
		at = g.Findings[0].Node
	}
	from, to := g.around(at, distance)
	return Region{from, to}
}

// label names a node in graphs of other programs.
func (n *Node) label() string {
	return reports.Name(n.Op[strings.LastIndexByte(n.Op, '.')+1:]) + fmt.Sprintf("/%d", n.ID)
}

// colors of verdicts in graphs of other programs.
func (n *Node) color() string {
	switch worst := verdict.Worse(verdict.Verdict(n.Verdict), verdict.Verdict(cmp.Or(n.Backward, n.Verdict))); worst {
	case verdict.Pass:
		return "#cfe8d5"
	case verdict.Fail:
		return "#f3b7b9"
	case verdict.Warn:
		return "#f6dfa8"
	default:
		return "#e2e4e8"
	}
}

// WriteDot writes a region for Graphviz.
func (g *Graph) WriteDot(w io.Writer, r Region) error {
	var b strings.Builder
	b.WriteString("digraph step {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n")
	for i := r.From; i < r.To; i++ {
		n := &g.Nodes[i]
		fmt.Fprintf(&b, "  n%d [label=%q, fillcolor=%q];\n", i, n.label()+"\n"+n.DType+" "+n.Shape, n.color())
	}
	largest := g.largestEffect()
	for _, e := range g.within(r) {
		fmt.Fprintf(&b, "  n%d -> n%d [penwidth=%.1f%s];\n", e.From, e.To, g.width(e, largest), changedStyle(e,
			", color=red, style=dashed"))
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMermaid writes a region for Mermaid.
func (g *Graph) WriteMermaid(w io.Writer, r Region) error {
	var b strings.Builder
	b.WriteString("flowchart TB\n")
	quote := strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;")
	for i := r.From; i < r.To; i++ {
		n := &g.Nodes[i]
		fmt.Fprintf(&b, "  n%d[\"%s<br/>%s %s\"]\n  style n%d fill:%s\n", i, quote.Replace(n.label()), n.DType,
			n.Shape, i, n.color())
	}
	largest := g.largestEffect()
	for k, e := range g.within(r) {
		fmt.Fprintf(&b, "  n%d --> n%d\n  linkStyle %d stroke-width:%.1fpx%s\n", e.From, e.To, k, g.width(e, largest),
			changedStyle(e, ",stroke:red"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func changedStyle(e Edge, style string) string {
	if e.How == string(step.IsChanged) {
		return style
	}
	return ""
}

// within are the edges of a region.
func (g *Graph) within(r Region) []Edge {
	return slices.DeleteFunc(slices.Clone(g.Edges), func(e Edge) bool {
		return e.From < r.From || e.From >= r.To || e.To < r.From || e.To >= r.To
	})
}

func (g *Graph) largestEffect() float64 {
	largest := 0.0
	for _, n := range g.Nodes {
		if n.Effect != nil {
			largest = max(largest, math.Abs(float64(*n.Effect)))
		}
	}
	return largest
}

// width of an edge by the effect on the loss of the call it comes from, from 1 to 6.
func (g *Graph) width(e Edge, largest float64) float64 {
	x := g.Nodes[e.From].Effect
	if x == nil || largest == 0 {
		return 1
	}
	return 1 + 5*math.Sqrt(min(1, math.Abs(float64(*x))/largest))
}
