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

// TestGraph: nodes, edges, blocks and lanes of a step, and the finding's node.
func TestGraph(t *testing.T) {
	g := NewGraph(trace(t, "overwritten"))
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
	calls, at := 0, 0
	for i, b := range g.Blocks {
		if b.First != at || b.Lanes < 1 {
			t.Errorf("block %d begins at %d, want %d; %d lanes", i, b.First, at, b.Lanes)
		}
		at += b.Calls
		calls += b.Calls
	}
	if calls != len(g.Nodes) {
		t.Errorf("blocks have %d calls, want %d", calls, len(g.Nodes))
	}
	if !slices.Equal(g.Nodes[0].Leaves, []string{"input[0] data", "input[1] parameter"}) {
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
	for module, want := range map[string]string{"blocks.0.mlp": "blocks.0", "head": "head", "model.layers.12.mlp.act": "model.layers.12"} {
		if got := layerOf(module); got != want {
			t.Errorf("layer of %s is %s, want %s", module, got, want)
		}
	}
}

// TestWriters: the page holds the whole graph and lets no text of a capture end its
// script; the region near the fault goes to other programs.
func TestWriters(t *testing.T) {
	g := NewGraph(trace(t, "overwritten"))
	g.Nodes[0].Capture = "</script><b>"
	var page, dot, mermaid, graph strings.Builder
	r := g.RegionAround(2)
	err := errors.Join(g.WriteHTML(&page), g.WriteDot(&dot, r), g.WriteMermaid(&mermaid, r), g.WriteJSON(&graph))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page.String(), "</script>"); n != 2 {
		t.Errorf("the page has %d ends of scripts, want 2", n)
	}
	for _, w := range []string{"CHANGED: input[1] of torch.Tensor.add/7", `"how":"changed"`} {
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
