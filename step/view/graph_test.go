package view

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/step"
)

// TestGraph: nodes and edges of a step, and the finding's node.
func TestGraph(t *testing.T) {
	g := NewGraph(trace(t, "overwritten"), repro)
	if len(g.Nodes) != 13 || len(g.Findings) != 1 || len(g.Losses) != 1 {
		t.Fatalf("%d nodes, %d findings, %d losses, want 13, 1, 1", len(g.Nodes), len(g.Findings), len(g.Losses))
	}
	if n := g.Nodes[g.Findings[0].Node]; n.label() != "add/7" {
		t.Errorf("the finding is about %s, want add/7", n.label())
	}
	changed := slices.IndexFunc(g.Edges, func(e Edge) bool { return e.How == "changed" })
	if changed < 0 || g.Nodes[g.Edges[changed].From].label() != "linear/6" {
		t.Error("no changed edge from linear/6")
	}
	if e := g.Edges[changed]; e.Type != "float32 [2 3 8]" || e.Gradient {
		t.Errorf("the edge carries %s, gradient %t", e.Type, e.Gradient)
	}
	if !slices.Equal(g.Nodes[0].Leaves, []string{"input[0] data int64 [2 3]", "input[1] parameter float32 [11 8]"}) {
		t.Errorf("leaves of the embedding: %q", g.Nodes[0].Leaves)
	}
}

// TestRepeats: layers are found by the operators that repeat.
func TestRepeats(t *testing.T) {
	var calls []*step.Call
	const ops = "embed norm linear gelu add norm linear gelu add norm linear gelu add head loss"
	for op := range strings.FieldsSeq(ops) {
		calls = append(calls, &step.Call{Op: op, Entry: &capture.Entry{}})
	}
	got := repeats(calls)
	want := []string{"", "repetition 1 of 3", "repetition 3 of 3", ""}
	if !slices.Equal([]string{got[0], got[1], got[12], got[13]}, want) {
		t.Errorf("got %q", got)
	}
	if got := repeats(calls[:5]); slices.ContainsFunc(got, func(s string) bool { return s != "" }) {
		t.Errorf("nothing repeats, got %q", got)
	}
}

// TestBoxes: modules are boxes in boxes, a list and its index are one, a box of one call is that call, and what has
// very many is divided.
func TestBoxes(t *testing.T) {
	for module, want := range map[string][]string{
		"head": {"head"}, "1.norm": {"1", "norm"}, "model.layers.12.mlp.act": {"model", "layers.12", "mlp", "act"},
	} {
		if got := modules(module); !slices.Equal(got, want) {
			t.Errorf("modules of %s are %q, want %q", module, got, want)
		}
	}
	paths := [][]string{nil, {"m", "a"}, {"m", "a"}, {"m", "b"}, {"m"}, {"x", "y"}, {"x", "y"}, {"m", "a"}}
	g := &Graph{Nodes: make([]Node, len(paths))}
	g.flatten(nested(paths, 0, 0), -1)
	want := []Box{{"m", -1, 1, 4}, {"a", 0, 1, 2}, {"x.y", -1, 5, 2}}
	if !slices.Equal(g.Boxes, want) {
		t.Errorf("boxes are %v, want %v", g.Boxes, want)
	}
	var of []int
	for _, n := range g.Nodes {
		of = append(of, n.Box)
	}
	if !slices.Equal(of, []int{-1, 1, 1, 0, 0, 2, 2, -1}) {
		t.Errorf("the nodes are in %v", of)
	}
	many := &Graph{Nodes: make([]Node, 20_000)}
	many.flatten(nested(make([][]string, len(many.Nodes)), 0, 0), -1)
	items := map[int]int{}
	for _, b := range many.Boxes {
		items[b.Parent]++
	}
	for _, n := range many.Nodes {
		items[n.Box]++
	}
	for b, n := range items {
		if n > manyItems {
			t.Errorf("box %d has %d items", b, n)
		}
	}
	if last := many.Boxes[len(many.Boxes)-1]; last.Name != "calls 19950 to 19999" {
		t.Errorf("the last box is %q", last.Name)
	}
}

// TestNode: a call has the bounds of its values, and the way of a fault to the loss is known.
func TestNode(t *testing.T) {
	g := NewGraph(trace(t, "scaled"), repro)
	n := &g.Nodes[g.Findings[0].Node]
	if n.Repro != "optool replay "+n.Capture || len(n.Values) != 2 {
		t.Fatalf("%s has %d values, is repeated by %q", n.label(), len(n.Values), n.Repro)
	}
	if v := n.Values[0]; v.Target != "output[0]" || v.Type != "float32 [2 3 16]" || v.Verdict != "fail" ||
		v.Ratio == nil || *v.Ratio <= 1 || len(v.Actual) == 0 || len(v.Expected) == 0 {
		t.Errorf("its result is %+v", v)
	}
	if v := n.Values[1]; v.Target != "grad[0]" || v.Verdict != "pass" || v.Ratio != nil && *v.Ratio > 1 {
		t.Errorf("its gradient is %+v", v)
	}
	if len(g.Way) < 3 || g.Way[0] != g.Findings[0].Node || g.Way[len(g.Way)-1] != g.Losses[0].Node {
		t.Errorf("the way to the loss is %v", g.Way)
	}
}

func repro(c *step.Call) string { return "optool replay " + c.Entry.Rel }

// TestWriters: the page holds the whole graph and lets no text of a capture end its
// script; the region near the fault goes to other programs.
func TestWriters(t *testing.T) {
	g := NewGraph(trace(t, "overwritten"), repro)
	g.Nodes[0].Capture = "</script><b>"
	var page, dot, mermaid, graph strings.Builder
	r := g.RegionAround(2)
	err := errors.Join(g.WriteHTML(&page), g.WriteDot(&dot, r), g.WriteMermaid(&mermaid, r), g.WriteJSON(&graph))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page.String(), "</script>"); n != 3 {
		t.Errorf("the page has %d ends of scripts, want 3", n)
	}
	for _, w := range []string{"CHANGED: input[1] of torch.Tensor.add/7", `"how":"changed"`,
		"Copyright (c) 2012-2014 Chris Pettitt"} {
		if !strings.Contains(page.String(), w) {
			t.Errorf("the page has no %q", w)
		}
	}
	var back Graph
	if err := json.Unmarshal([]byte(graph.String()), &back); err != nil || len(back.Edges) != len(g.Edges) {
		t.Errorf("the graph does not read back: %v, %d edges", err, len(back.Edges))
	}
	if !strings.Contains(dot.String(), ", color=red, style=dashed];\n") || !strings.Contains(dot.String(), "n5 -> n6") {
		t.Errorf("dot:\n%s", dot.String())
	}
	if !strings.Contains(mermaid.String(), `n6["add/7<br/>float32 [2 3 8]"]`) || strings.Contains(mermaid.String(), "n0[") {
		t.Errorf("mermaid:\n%s", mermaid.String())
	}
}
