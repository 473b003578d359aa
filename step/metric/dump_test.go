package metric

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor/value"
)

func openDump(t *testing.T, name string) *Dump {
	t.Helper()
	f, err := pthformat.Open(filepath.Join("testdata", "slime", name), pthformat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := ParseDump(f.Root)
	if d == nil {
		t.Fatalf("%s: no log-probabilities", name)
	}
	return d
}

// TestDumps: samples of a rollout and of a training step in another order; one is in parts there, and a token of
// another was not drawn by the model. The numbers are those that record.py computed.
func TestDumps(t *testing.T) {
	want := truths(t, "dumps")
	for _, tc := range []struct {
		name              string
		rollout, training string
		tokens, left      int
	}{
		{"two_files", "rollout_0.pt", "train_0_0.pt", 10, 1},
		{"one_file", "train_0_0.pt", "train_0_0.pt", 10, 1},
		{"two_files", "rollout_0.pt", "samples_0_0.pt", 10, 1},
		{"one_file", "samples_0_0.pt", "samples_0_0.pt", 10, 1},
	} {
		p, left := NewDumpPair(openDump(t, tc.rollout), openDump(t, tc.training))
		if p == nil || len(p.Tokens) != tc.tokens || left != tc.left {
			t.Fatalf("%s: %+v, %d left out", tc.name, p, left)
		}
		if got := p.MeanAbs(); math.Abs(got-want[tc.name].MeanAbs) > 1e-7 {
			t.Errorf("%s: %g apart, want %g", tc.name, got, want[tc.name].MeanAbs)
		}
		r := p.Record()
		if r.Program != nil || r.Nearer["this"]+r.Nearer["against"] > 0 || p.Tokens[0].Nearer() != "" {
			t.Errorf("%s: exact values are claimed: %+v", tc.name, r)
		}
	}
	if p, _ := NewDumpPair(openDump(t, "train_0_0.pt"), openDump(t, "rollout_0.pt")); p != nil {
		t.Error("a rollout has log-probabilities of training")
	}
}

// TestDumpOfRun: a recorded run against a file of the same tokens is explained by its own calls.
func TestDumpOfRun(t *testing.T) {
	tr := open(t, "rollout_silu")
	s, err := ScoresOf(context.Background(), tr, "", false, options(t))
	if err != nil || s == nil {
		t.Fatal(err)
	}
	list := func(f func(Score) value.Value) (out []value.Value) {
		for _, x := range s.Rows[0] {
			out = append(out, f(x))
		}
		return out
	}
	tokens := value.NewList(append([]value.Value{int64(3)}, list(func(x Score) value.Value { return x.ID })...)...)
	exact := value.NewList(list(func(x Score) value.Value { return x.Exact })...)
	sample := &value.Dict{Items: []value.Item{{Key: "tokens", Value: tokens},
		{Key: "response_length", Value: int64(len(s.Rows[0]))}, {Key: "rollout_log_probs", Value: exact}}}
	d := ParseDump(&value.Dict{Items: []value.Item{{Key: "samples", Value: value.NewList(sample)}}})
	p, err := NewPairWithDump(context.Background(), tr, d, "", options(t))
	if err != nil || p == nil {
		t.Fatal(err)
	}
	if len(p.Tokens) != len(s.Rows[0]) || len(p.Findings) == 0 || p.Findings[0].Call.Op != "torch.nn.functional.silu" {
		t.Errorf("%d tokens, %+v", len(p.Tokens), p.Findings)
	}
}
