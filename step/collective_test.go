package step

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
)

// A hookFile writes what the hook records of one rank.
type hookFile struct {
	lines  []string
	blobs  []byte
	number int
}

// tensor adds a tensor of a shape and gives its JSON.
func (h *hookFile) tensor(ptr int, shape string, elements ...float32) string {
	h.lines = append(h.lines, fmt.Sprintf(`{"event":"blob","n":%d,"file":0,"begin":%d,"bytes":%d}`, h.number,
		len(h.blobs), 4*len(elements)))
	for _, x := range elements {
		h.blobs = binary.LittleEndian.AppendUint32(h.blobs, math.Float32bits(x))
	}
	h.number++
	return fmt.Sprintf(`{"tensor":%d,"dtype":"float32","shape":%s,"ptr":%d}`, h.number-1, shape, ptr)
}

func (h *hookFile) call(id int, name, rest, args, kwargs, returned string) {
	h.lines = append(h.lines,
		fmt.Sprintf(`{"event":"call","id":%d,"name":%q,"step":0%s,"args":[%s],"kwargs":{%s}}`, id, name, rest, args,
			kwargs),
		fmt.Sprintf(`{"event":"return","id":%d,%s}`, id, returned))
}

func (h *hookFile) write(t *testing.T, dir string, rank int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	head := fmt.Sprintf(`{"event":"run","format":"optool-capture","version":1,"rank":%d,"pid":%d}`, rank, 100+rank)
	text := strings.Join(slices.Concat([]string{head}, h.lines, []string{`{"event":"end"}`}), "\n") + "\n"
	for name, data := range map[string][]byte{"calls.jsonl": []byte(text), "tensors-00000.safetensors": h.blobs} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCollectives: what a collective changed comes from outside and is no finding;
// a rank that has not what all ranks put in is named.
func TestCollectives(t *testing.T) {
	const ptr = 4096
	shape := "[4]"
	in := [2][]float32{{1, 2, 3, 4}, {5, 2, 7, 0.5}}
	reduce := func(text string) string { return `"op":{"object":"RedOpType","text":"<RedOpType.` + text + `: 0>"}` }
	both := func(x ...float32) [2][]float32 { return [2][]float32{x, x} }
	tests := []struct {
		name, op, kwargs string
		out              [2][]float32 // of the first argument; the others are each rank's in
		wrong            string       // the rank named, "" if none
	}{
		{"sum", "all_reduce", "", both(6, 4, 10, 4.5), ""},
		{"sum, one rank wrong", "all_reduce", "", [2][]float32{{6, 4, 10, 4.5}, {6, 4, 9, 4.5}}, "rank 1"},
		{"average", "all_reduce", reduce("AVG"), both(3, 2, 5, 2.25), ""},
		{"sum for an average", "all_reduce", reduce("AVG"), both(6, 4, 10, 4.5), "rank 0"},
		{"maximum", "all_reduce", reduce("MAX"), both(5, 2, 7, 4), ""},
		{"minimum", "all_reduce", reduce("MIN"), both(1, 2, 3, 4), "rank 0"},
		{"product", "all_reduce", reduce("PRODUCT"), both(5, 4, 21, 2), ""},
		{"not known", "all_reduce", reduce("BXOR"), both(1, 2, 3, 9), ""},
		{"async, waited", "all_reduce", `"async_op":true`, both(6, 4, 10, 4.5), ""},
		{"async, read too early", "all_reduce", `"async_op":true`, both(1, 2, 3, 9), "rank 0"},
		{"broadcast", "broadcast", `"src":1`, both(5, 2, 7, 0.5), ""},
		{"broadcast of the other", "broadcast", `"src":1`, both(1, 2, 3, 4), "rank 0"},
		{"gather", "all_gather_into_tensor", "", both(1, 2, 3, 4, 5, 2, 7, 0.5), ""},
		{"gather in another order", "all_gather_into_tensor", "", both(5, 2, 7, 0.5, 1, 2, 3, 4), "rank 0"},
		{"scatter", "reduce_scatter_tensor", "", [2][]float32{{6, 4}, {10, 4.5}}, ""},
		{"scatter of the first part twice", "reduce_scatter_tensor", "", both(6, 4), "rank 1"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for rank := range 2 {
				h := &hookFile{}
				first, shape, args := in[rank], shape, ""
				if strings.HasSuffix(tc.op, "_tensor") {
					first = make([]float32, len(tc.out[rank]))
					for i := range first {
						first[i] = tc.out[rank][i] // what was there by chance: most of it stays
					}
					first[0] = -1
					shape = fmt.Sprintf("[%d]", len(first))
					args = "," + h.tensor(2*ptr, "[4]", in[rank]...)
				}
				made := h.tensor(ptr, shape, first...)
				h.call(0, "torch.Tensor.neg", "", h.tensor(3*ptr, shape, negated(first)...), "", `"result":`+made)
				after := h.tensor(ptr, shape, tc.out[rank]...)
				h.call(1, "torch.distributed."+tc.op, `,"group":[0,1]`, made+args, tc.kwargs,
					`"result":null,"after":{"0":`+after+`}`)
				h.call(2, "torch.Tensor.neg", "", after, "",
					`"result":`+h.tensor(4*ptr, shape, negated(tc.out[rank])...))
				h.write(t, filepath.Join(dir, fmt.Sprintf("rank%d", rank)), rank)
			}
			tr := analyse(t, dir)
			index := collective.NewIndex(capture.Scan(t.Context(), []string{dir}, capture.Options{}), 0)
			async := strings.HasPrefix(tc.name, "async")
			failed := "" // the first rank that replay fails
			for e, err := range capture.Scan(t.Context(), []string{dir}, capture.Options{}) {
				if err != nil {
					t.Fatal(err)
				}
				if collective.Name(e.Op) == "" {
					continue
				}
				o := replay.Run(e, replay.Options{Registry: ops.Default(), Ranks: index})
				skipped := strings.HasPrefix(tc.name, "not ") || async
				if (o.Verdict() == verdict.Skipped) != skipped {
					t.Errorf("replay: %+v", o.Results)
				}
				if o.Verdict() == verdict.Fail && failed == "" {
					failed = fmt.Sprintf("rank %d", e.Rank)
				}
			}
			if failed != tc.wrong && !async {
				t.Errorf("replay fails %q, want %q", failed, tc.wrong)
			}
			if n := len(tr.Processes); n != 2 {
				t.Fatalf("%d processes", n)
			}
			for i, p := range tr.Processes {
				v := p.Calls[2].Inputs[0]
				same := fmt.Sprint(tc.out[i]) == fmt.Sprint(in[i])
				if !same && (v.From.How != IsOutside || v.From.Role != "collective") {
					t.Errorf("rank %d: the result is %s %s, want outside collective", i, v.From.How, v.From.Role)
				}
				if w := p.Calls[1].Inputs[0].From.Value; w == nil || w.Call != p.Calls[0] {
					t.Errorf("rank %d: what it put in comes from %s", i, w.name())
				}
			}
			if tc.wrong == "" {
				if len(tr.Findings) > 0 {
					t.Errorf("%s: %s", tr.Findings[0].Rule, tr.Findings[0].Reason)
				}
				return
			}
			f := tr.First()
			if f == nil || f.Rule != verdict.Wrong || f.Call.collective() == "" ||
				!strings.HasPrefix(f.Reason, tc.wrong+" ") {
				t.Fatalf("first finding %+v, want %s wrong", f, tc.wrong)
			}
		})
	}
}

// TestDecided: a collective call that replay cannot judge alone is judged where all ranks were recorded.
func TestDecided(t *testing.T) {
	c := &Call{Verdict: verdict.Skipped, Results: []Result{{Verdict: verdict.Skipped}}}
	if c.decide(); !c.judged() || len(c.Results) > 0 {
		t.Errorf("got %s, %v", c.Verdict, c.Results)
	}
}

func negated(xs []float32) []float32 {
	out := make([]float32, len(xs))
	for i, x := range xs {
		out[i] = -x
	}
	return out
}

// TestAccumulates: what a call of the backward pass left may have changed before another reads it if autograd ran other
// calls' backward passes in between; behind the backward pass nothing adds to it.
func TestAccumulates(t *testing.T) {
	p := &Process{}
	for _, orders := range [][2]int{{0, 14}, {1, 12}, {2, 10}, {11, -1}, {13, -1}, {15, -1}} {
		p.Calls = append(p.Calls, &Call{Process: p,
			Entry: &capture.Entry{Order: orders[0], BackwardOrder: orders[1]}})
	}
	for _, tc := range []struct {
		first, second int
		want          bool
	}{{3, 4, true}, {4, 5, false}, {3, 5, false}} {
		from, to := p.Calls[tc.first].accumulates()
		if at := p.Calls[tc.second].Entry.Order; (from < at && at < to) != tc.want {
			t.Errorf("between %d and %d: not %v", tc.first, tc.second, tc.want)
		}
	}
}

// TestCoalesced: a collective that wrote nothing on any rank when it returned is judged by what is read later, as one
// of a coalesced group is.
func TestCoalesced(t *testing.T) {
	const ptr = 4096
	in := [2][]float32{{1, 2, 3, 4}, {5, 2, 7, 0.5}}
	for _, tc := range []struct {
		name  string
		reads [2][]float32
		wrong bool
	}{
		{"done later", [2][]float32{{6, 4, 10, 4.5}, {6, 4, 10, 4.5}}, false},
		{"never done", in, true},
	} {
		dir := t.TempDir()
		for rank := range 2 {
			h := &hookFile{}
			before := h.tensor(ptr, "[4]", in[rank]...)
			h.call(0, "torch.Tensor.neg", "", h.tensor(3*ptr, "[4]", negated(in[rank])...), "", `"result":`+before)
			h.call(1, "torch.distributed.all_reduce", `,"group":[0,1]`, before, "",
				`"result":null,"after":{"0":`+before+`}`)
			h.call(2, "torch.Tensor.neg", "", h.tensor(ptr, "[4]", tc.reads[rank]...), "",
				`"result":`+h.tensor(4*ptr, "[4]", negated(tc.reads[rank])...))
			h.write(t, filepath.Join(dir, fmt.Sprintf("rank%d", rank)), rank)
		}
		if f := analyse(t, dir).First(); (f != nil) != tc.wrong || f != nil && f.Rule != verdict.Wrong {
			t.Errorf("%s: first finding %+v", tc.name, f)
		}
	}
}
