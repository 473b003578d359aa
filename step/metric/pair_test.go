package metric

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/step"
)

func pair(t *testing.T, this, other string) *Pair {
	t.Helper()
	p, err := NewPair(context.Background(), open(t, this), open(t, other), "", options(t))
	if err != nil {
		t.Fatal(err)
	}
	if p == nil {
		t.Fatal("the two runs have no tokens in common")
	}
	return p
}

// TestPair: tokens decoded one after the other against one pass, sound and with a fault on either side; against a
// batch that is padded, whose mask leaks or not.
func TestPair(t *testing.T) {
	want := truths(t, "two_runs")
	for _, tc := range []struct {
		this, other, truth string
		rule               verdict.Rule
		side               step.Side
		op, reason         string
	}{
		{"rollout", "train", "sound", "", "", "", ""},
		{"train", "rollout", "sound", "", "", "", ""},
		{"rollout_decode", "train", "sound", "", "", "", ""},
		{"rollout_again", "train", "sound", "", "", "", ""},
		{"train", "rollout_decode", "sound", "", "", "", ""},
		{"rollout_silu", "train", "silu", verdict.Wrong, step.This, "torch.nn.functional.silu", "4 calls of"},
		{"train", "rollout_silu", "silu", verdict.Wrong, step.Other, "torch.nn.functional.silu", "4 calls of"},
		{"rollout_stale", "train", "stale", verdict.Diverged, step.This, "torch.nn.functional.linear", "the weights"},
		{"rollout", "train_padded", "padded", "", "", "", ""},
		{"rollout", "train_leak", "leak", verdict.Diverged, step.Other, "torch.where", "depend on padding"},
		{"train_leak", "rollout", "leak", verdict.Diverged, step.This, "torch.where", "depend on padding"},
		{"rollout", "train_future", "future", verdict.Diverged, step.Other, "torch.where", "depend on tokens behind"},
	} {
		p := pair(t, tc.this, tc.other)
		if got := p.MeanAbs(); math.Abs(got-want[tc.truth].MeanAbs) > 1e-6 || len(p.Tokens) != 4 {
			t.Errorf("%s, %s: %d tokens are %g apart, want %g", tc.this, tc.other, len(p.Tokens), got,
				want[tc.truth].MeanAbs)
		}
		if tc.rule == "" {
			if len(p.Findings) > 0 {
				t.Errorf("%s, %s: %+v", tc.this, tc.other, p.Findings[0])
			}
			continue
		}
		if len(p.Findings) == 0 {
			t.Errorf("%s, %s: nothing was found", tc.this, tc.other)
			continue
		}
		f := p.Findings[0]
		if f.Rule != tc.rule || f.Side != tc.side || f.Call.Op != tc.op || !strings.Contains(f.Reason, tc.reason) {
			t.Errorf("%s, %s: %s %s %s: %s", tc.this, tc.other, f.Rule, f.Side, f.Call, f.Reason)
		}
	}
}

// TestListed: rollouts that end in a list with one result for each pass, and what departs in one of their passes.
func TestListed(t *testing.T) {
	want := truths(t, "listed_runs")
	for _, tc := range []struct {
		this, other, truth string
		tokens             int
		side               step.Side
		op                 string
	}{
		{"list_one", "list_train", "sound", 6, "", ""}, {"list_train", "list_one", "sound", 6, "", ""},
		{"list_part", "list_train", "part", 6, step.This, "torch.Tensor.mul"},
		{"list_all", "list_train", "all", 6, step.This, "torch.Tensor.mul"},
		{"list_alone", "list_alone_train", "alone", 6, "", ""},
		{"list_alone_train", "list_alone", "alone", 6, "", ""},
		{"list_drawn", "list_drawn_train", "sound", 4, "", ""}, {"list_index", "list_train", "sound", 6, "", ""},
		{"list_cooled", "list_warm", "", 6, step.This, "torch.Tensor.div"},
		{"list_warm", "list_cooled", "", 6, step.Other, "torch.Tensor.div"},
	} {
		p := pair(t, tc.this, tc.other)
		if len(p.Tokens) != tc.tokens || tc.truth != "" && math.Abs(p.MeanAbs()-want[tc.truth].MeanAbs) > 1e-6 {
			t.Errorf("%s, %s: %d tokens are %g apart, want %d, %g", tc.this, tc.other, len(p.Tokens), p.MeanAbs(),
				tc.tokens, want[tc.truth].MeanAbs)
		}
		switch {
		case tc.op == "" && len(p.Findings) > 0:
			t.Errorf("%s, %s: %+v", tc.this, tc.other, p.Findings[0])
		case tc.op == "":
		case len(p.Findings) == 0:
			t.Errorf("%s, %s: nothing was found", tc.this, tc.other)
		case p.Findings[0].Side != tc.side || p.Findings[0].Call.Op != tc.op:
			t.Errorf("%s, %s: %s %s", tc.this, tc.other, p.Findings[0].Side, p.Findings[0].Call)
		}
	}
}

// TestMasked: rows that are padded on the left, with a 0 where no token is told, against the same tokens in one row,
// that an index picks and another one keeps; that row is packed right or lets other sequences be read.
func TestMasked(t *testing.T) {
	want := truths(t, "masked_runs")
	for truth, other := range map[string]string{"packed": "masked_packed", "leak": "masked_leak"} {
		for i, p := range []*Pair{pair(t, "masked_left", other), pair(t, other, "masked_left")} {
			if got := p.MeanAbs(); len(p.Tokens) != 12 || math.Abs(got-want[truth].MeanAbs) > 1e-6 {
				t.Errorf("%s: %d tokens are %g apart, want 12, %g", other, len(p.Tokens), got, want[truth].MeanAbs)
			}
			switch {
			case truth == "packed":
				if len(p.Findings) > 0 {
					t.Errorf("%s: %+v", other, p.Findings[0])
				}
			case len(p.Findings) == 0 || p.Findings[0].Side != sideOf(1-i) ||
				!strings.Contains(p.Findings[0].Reason, "depend on another sequence"):
				t.Errorf("%s: %+v", other, p.Findings)
			}
		}
	}
}

// TestPlace: tokens that are told behind some of those that were read are placed where that is certain.
func TestPlace(t *testing.T) {
	ids := []int64{9, 5, 6, 5, 7, 8}
	for _, tc := range []struct {
		told []int64
		want []int
	}{
		{[]int64{5, 6, 5, 7, 8}, []int{1, 2, 3, 4, 5}}, {[]int64{6, 7}, []int{2, 4}}, {[]int64{5, 8}, []int{0, 5}},
		{[]int64{7, 8, 8}, []int{0, 0, 0}}, {[]int64{6, 5, 8}, []int{2, 3, 5}},
		{[]int64{0, 6, 0, 7}, []int{1, 2, 3, 4}},
	} {
		row := make([]Score, len(tc.told))
		for i, id := range tc.told {
			row[i].ID = id
		}
		place(row, []int{1, 2, 3, 4, 5}, ids)
		for i, x := range row {
			if x.reads != tc.want[i] || x.reads > 0 && (x.before != ids[x.reads-1] || x.target != ids[x.reads]) {
				t.Errorf("%v: token %d is read at %d, want %d", tc.told, i, x.reads, tc.want[i])
			}
		}
	}
}

// TestSkipped: where exact arithmetic visits an expert that the rollout skips, both sides keep the recorded routes
// and no difference of the programs is found.
func TestSkipped(t *testing.T) {
	want := truths(t, "skips")
	for other, truth := range map[string]string{"skips_none": "all", "skips_none_float": "float"} {
		for _, p := range []*Pair{pair(t, "skips", other), pair(t, other, "skips")} {
			if len(p.Strays) == 0 || p.Record().RoutesKept == "" {
				t.Errorf("%s: the recorded routes are not kept", other)
			}
			if got := p.MeanAbs(); len(p.Findings) > 0 || math.Abs(got-want[truth].MeanAbs) > 1e-6 {
				t.Errorf("%s: %g apart, want %g, findings %+v", other, got, want[truth].MeanAbs, p.Findings)
			}
			if truth == "all" && p.Program > 1e-12 {
				t.Errorf("%s: the programs are %g apart", other, p.Program)
			}
		}
	}
}

// TestExplained: the calls that explain the worst token are those of the faulty operator.
func TestExplained(t *testing.T) {
	p := pair(t, "rollout_silu", "train")
	worst := slices.MaxFunc(p.Tokens, func(a, b *Token) int {
		if math.Abs(a.Difference()) < math.Abs(b.Difference()) {
			return -1
		}
		return 1
	})
	if len(worst.ExplainedBy) == 0 || worst.ExplainedBy[0].Op != "torch.nn.functional.silu" ||
		worst.ExplainedSides[0] != step.This || worst.Nearer() != step.Other {
		t.Errorf("the worst token is explained by %v on %v", worst.ExplainedBy, worst.ExplainedSides)
	}
}

// TestAlignTokens: rows that are padded on the left, on the right, and packed in one row.
func TestAlignTokens(t *testing.T) {
	rows := func(all ...[]int64) (out [][]Score) {
		for _, ids := range all {
			var r []Score
			for i, id := range ids {
				r = append(r, Score{ID: id, at: i})
			}
			out = append(out, r)
		}
		return out
	}
	right := rows([]int64{5, 6, 7, 8, 9, 5}, []int64{4, 3, 0, 0, 0, 0})
	left := rows([]int64{5, 6, 7, 8, 9, 5}, []int64{0, 0, 0, 2, 4, 3})
	packed := rows([]int64{5, 6, 7, 8, 9, 5, 2, 4, 3})
	for _, tc := range []struct {
		name string
		a, b [][]Score
	}{{"left", left, right}, {"packed", packed, right}, {"the same", right, right}} {
		var ids []int64
		for _, p := range alignTokens(tc.a, tc.b) {
			if p[0].ID != p[1].ID {
				t.Errorf("%s: %d is paired with %d", tc.name, p[0].ID, p[1].ID)
			}
			ids = append(ids, p[0].ID)
		}
		if want := []int64{5, 6, 7, 8, 9, 5, 4, 3}; !slices.Equal(ids, want) {
			t.Errorf("%s: %v, want %v", tc.name, ids, want)
		}
	}
}

// TestNearer: where both are as near, no side is nearer; tokens of which one is NaN are counted and in no number.
func TestNearer(t *testing.T) {
	score := func(is, exact float64) Score { return Score{LogProb: is, Exact: exact} }
	p := &Pair{Tokens: []*Token{
		{This: score(-1, -1.5), Other: score(-1, -1.5)}, {This: score(-1, -1.1), Other: score(-1.2, -1)},
		{This: score(-1, -1.5), Other: score(-1, -1.1)}, {This: score(math.NaN(), -1), Other: score(-1, -1)},
		{This: score(-1, math.NaN()), Other: score(-1, -1)},
	}}
	r := p.Record()
	if r.Nearer["tie"] != 1 || r.Nearer["this"] != 1 || r.Nearer["against"] != 1 || r.NonFinite != 1 {
		t.Errorf("%+v", r)
	}
	if got := p.MeanAbs(); math.Abs(got-0.05) > 1e-12 || r.MaxAbs == nil {
		t.Errorf("%g apart on average", got)
	}
}
