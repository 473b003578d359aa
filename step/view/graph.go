package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/verdict"
)

// A Graph is the dataflow of a trace's forward passes, as JSON and the page have it.
type Graph struct {
	Title    string    `json:"title"`
	Verdict  string    `json:"verdict"` // one sentence
	Nodes    []Node    `json:"nodes"`
	Edges    []Edge    `json:"edges"`
	Blocks   []Block   `json:"blocks"`
	Findings []Finding `json:"findings"`
	Losses   []Loss    `json:"losses"`
	// Bars and Tokens are what was measured on results that are no losses.
	Bars      []Bar  `json:"bars,omitempty"`
	BarsTitle string `json:"bars_title,omitempty"`
	Tokens    []Mark `json:"tokens,omitempty"`
}

// A Node is a call.
type Node struct {
	Capture    string          `json:"capture"`
	Op         string          `json:"op"`
	ID         int             `json:"id"` // forward id
	Block      int             `json:"block"`
	Lane       int             `json:"lane"` // of its block, from the top
	DType      string          `json:"dtype,omitempty"`
	Shape      string          `json:"shape,omitempty"`
	Module     string          `json:"module,omitempty"`
	Location   string          `json:"location,omitempty"`
	Verdict    string          `json:"verdict"`
	Backward   string          `json:"backward,omitempty"` // the worst verdict of the gradients
	Reason     string          `json:"reason,omitempty"`
	Device     string          `json:"device,omitempty"` // what a device made of it: "forward pass, backward fail: ..."
	Effect     *reports.Number `json:"effect,omitempty"`
	LocalError *reports.Number `json:"local_error,omitempty"`
	TotalError *reports.Number `json:"total_error,omitempty"`
	Leaves     []string        `json:"leaves,omitempty"` // inputs that no call made: "input[1] parameter"
}

// An Edge is an input that a call made; From and To are indices of nodes.
type Edge struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Target string `json:"target"`
	How    string `json:"how"`
}

// A Block is consecutive calls that are shown side by side: those of a module, or a
// part that the sequence of operators repeats.
type Block struct {
	Name  string `json:"name"`
	First int    `json:"first"` // index of its first node
	Calls int    `json:"calls"`
	Lanes int    `json:"lanes"`
}

// A Finding is a finding about a node, or about none that the graph has (-1).
type Finding struct {
	Rule   string `json:"rule"`
	Node   int    `json:"node"`
	Target string `json:"target"`
	Reason string `json:"reason"`
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

// NewGraph is the graph of a trace.
func NewGraph(t *step.Trace) *Graph {
	g := &Graph{Title: "optool step", Verdict: verdictLine(t), Nodes: []Node{}, Edges: []Edge{}, Findings: []Finding{}}
	at := map[*step.Call]int{}
	for _, p := range t.Processes {
		first := len(g.Nodes)
		for _, c := range p.Calls {
			at[c] = len(g.Nodes)
			g.Nodes = append(g.Nodes, node(c))
		}
		g.addBlocks(p, first)
		for _, s := range p.Steps {
			g.Losses = append(g.Losses, Loss{at[s.Loss], number(s.Captured), number(s.Exact), number(s.Predicted)})
		}
	}
	for _, c := range t.Calls() {
		for _, v := range c.Inputs {
			if w := v.From.Value; w != nil {
				g.Edges = append(g.Edges, Edge{at[w.Call], at[c], v.Target, string(v.From.How)})
				continue
			}
			n := &g.Nodes[at[c]]
			n.Leaves = append(n.Leaves, strings.TrimSpace(v.Target+" "+cmp.Or(v.From.Role, string(v.From.How))))
		}
	}
	g.addLanes()
	for _, f := range t.Findings {
		i, ok := at[f.Call]
		if !ok {
			i = -1
		}
		text := sentence(f)
		if len(f.Causes) > 0 {
			text += "; " + f.Causes[0].Label() + ": " + f.Causes[0].String()
		}
		g.Findings = append(g.Findings, Finding{string(f.Rule), i, f.Target, text})
	}
	return g
}

func node(c *step.Call) Node {
	n := Node{Capture: c.Entry.Rel, Op: c.Op, ID: c.Entry.ID, Module: c.Entry.Module, Location: c.Entry.Location,
		Verdict: string(c.Verdict), Effect: number(c.Effect), LocalError: number(c.LocalError),
		TotalError: number(c.TotalError)}
	if len(c.Outputs) > 0 {
		n.DType = c.DType().String()
		n.Shape = fmt.Sprint(c.Outputs[0].Shape)
	}
	for _, r := range c.Results {
		if n.Reason == "" && r.Verdict != verdict.Skipped {
			n.Reason = strings.TrimSpace(r.Target + " " + r.Reason)
		}
	}
	for _, r := range c.Reruns() {
		n.Device += fmt.Sprintf(", %s %s", r.Phase, r.Verdict)
		if r.Reason != "" {
			n.Device += ": " + r.Reason
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
		return strings.ToUpper(string(f.Rule)) + ": " + sentence(f)
	}
	for _, f := range t.Findings {
		if f.Rule == verdict.Drift {
			return "DRIFT: " + sentence(f)
		}
	}
	return nothing(t)
}

// largestBlock is how many calls a block has at most where nothing divides them.
const largestBlock = 60

// addBlocks divides the calls of a process, which begin at node first, into blocks:
// by module, or by the part of the sequence of operators that repeats, as layers do.
func (g *Graph) addBlocks(p *step.Process, first int) {
	names := make([]string, len(p.Calls))
	part := repeats(p.Calls)
	for i, c := range p.Calls {
		switch {
		case c.Entry.Module != "":
			names[i] = layerOf(c.Entry.Module)
		default:
			names[i] = part[i]
		}
		if len(p.Steps) > 1 && c.Step != nil {
			names[i] = strings.TrimSpace(fmt.Sprintf("step %d %s", c.Step.Number, names[i]))
		}
	}
	for i := range p.Calls {
		if i == 0 || names[i] != names[i-1] || g.Blocks[len(g.Blocks)-1].Calls == largestBlock && part[i] == "" {
			g.Blocks = append(g.Blocks, Block{Name: names[i], First: first + i})
		}
		g.Blocks[len(g.Blocks)-1].Calls++
		g.Nodes[first+i].Block = len(g.Blocks) - 1
	}
}

// layerOf is the part of a module's path up to its first number: "blocks.0" of
// "blocks.0.mlp".
func layerOf(module string) string {
	parts := strings.Split(module, ".")
	for i, p := range parts {
		if p != "" && strings.Trim(p, "0123456789") == "" {
			return strings.Join(parts[:i+1], ".")
		}
	}
	return parts[0]
}

// repeats names the calls of each repetition of the period that covers most of the
// sequence of operators; "" for the others.
func repeats(calls []*step.Call) []string {
	names := make([]string, len(calls))
	best, bestAt, period := 0, 0, 0
	for p := 3; p <= len(calls)/2; p++ {
		run := 0
		for i := 0; i+p < len(calls); i++ {
			if calls[i].Op != calls[i+p].Op {
				run = 0
				continue
			}
			// A longer period that covers no more is a multiple of the shorter one.
			if run++; run >= p && run+p > best+best/8 {
				best, bestAt, period = run+p, i-run+1, p
			}
		}
	}
	if period == 0 || best < 2*period || best < len(calls)/4 {
		return names
	}
	for k := range best / period {
		for i := range period {
			names[bestAt+k*period+i] = fmt.Sprintf("repetition %d of %d", k+1, best/period)
		}
	}
	return names
}

// addLanes gives the nodes of each block lanes, so that a chain of calls stays in
// one and what branches off gets another.
func (g *Graph) addLanes() {
	sources := make([][]int, len(g.Nodes))
	for _, e := range g.Edges {
		sources[e.To] = append(sources[e.To], e.From)
	}
	for b := range g.Blocks {
		block := &g.Blocks[b]
		var tails []int // the last node of each lane
		for i := block.First; i < block.First+block.Calls; i++ {
			lane := slices.IndexFunc(tails, func(tail int) bool { return slices.Contains(sources[i], tail) })
			if lane < 0 { // nothing to go on with: the lane that has waited longest, or a new one
				const most = 6
				lane = len(tails)
				if lane == most {
					lane = slices.Index(tails, slices.Min(tails))
				}
			}
			if lane == len(tails) {
				tails = append(tails, i)
			}
			tails[lane] = i
			g.Nodes[i].Lane = lane
		}
		block.Lanes = max(1, len(tails))
	}
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
