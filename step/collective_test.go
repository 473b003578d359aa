package step

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
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
	text := strings.Join(append([]string{head}, h.lines...), "\n") + "\n"
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
		{"not finished", "all_reduce", `"async_op":true`, both(1, 2, 3, 9), ""},
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

// TestExchanged: what each rank should have after collectives whose arguments are lists.
func TestExchanged(t *testing.T) {
	of := func(x ...float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{len(x)}, x).Rounded() }
	list := func(ts ...*tensor.Tensor) []*tensor.Tensor { return ts }
	was := of(0, 0)
	for _, tc := range []struct {
		name          string
		before, after [2][]*tensor.Tensor
		kwargs        *value.Dict
		wrong         string // "rank 1", "" for none
	}{
		{"all_to_all", [2][]*tensor.Tensor{list(was, was, of(1, 2), of(3, 4)), list(was, was, of(5, 6), of(7, 8))},
			[2][]*tensor.Tensor{list(of(1, 2), of(5, 6), of(1, 2), of(3, 4)),
				list(of(3, 4), of(7, 8), of(5, 6), of(7, 8))},
			nil, ""},
		{"all_to_all", [2][]*tensor.Tensor{list(was, was, of(1, 2), of(3, 4)), list(was, was, of(5, 6), of(7, 8))},
			[2][]*tensor.Tensor{list(of(1, 2), of(5, 6), of(1, 2), of(3, 4)),
				list(of(3, 4), of(5, 6), of(5, 6), of(7, 8))},
			nil, "rank 1"},
		{"all_to_all_single", [2][]*tensor.Tensor{list(was, of(1, 2)), list(was, of(3, 4))},
			[2][]*tensor.Tensor{list(of(1, 3), of(1, 2)), list(of(2, 4), of(3, 4))}, nil, ""},
		{"all_to_all_single", [2][]*tensor.Tensor{list(was, of(1, 2)), list(was, of(3, 4))},
			[2][]*tensor.Tensor{list(of(1, 2), of(1, 2)), list(of(2, 4), of(3, 4))}, nil, "rank 0"},
		{"all_to_all_single", [2][]*tensor.Tensor{list(was, of(1, 2)), list(was, of(3, 4))},
			[2][]*tensor.Tensor{list(of(1, 2), of(1, 2)), list(of(3, 4), of(3, 4))},
			&value.Dict{Items: []value.Item{{Key: "input_split_sizes", Value: value.NewList(int64(2), int64(0))}}}, ""},
		{"scatter", [2][]*tensor.Tensor{list(was), list(was, of(1, 2), of(3, 4))},
			[2][]*tensor.Tensor{list(of(1, 2)), list(of(3, 4), of(1, 2), of(3, 4))}, nil, ""},
		{"scatter", [2][]*tensor.Tensor{list(was), list(was, of(1, 2), of(3, 4))},
			[2][]*tensor.Tensor{list(of(3, 4)), list(of(3, 4), of(1, 2), of(3, 4))}, nil, "rank 0"},
	} {
		x := exchange{tc.name, []int{0, 1}, nil}
		var sides []side
		for i := range 2 {
			kwargs := tc.kwargs
			if kwargs == nil {
				kwargs = &value.Dict{}
			}
			sides = append(sides, side{&capture.Call{Kwargs: kwargs}, tc.before[i], tc.after[i]})
		}
		wrong := ""
		for i := range 2 {
			ws := x.wants(sides, i)
			if (len(ws) == 0) != (tc.kwargs != nil) {
				t.Errorf("%s: rank %d should have %d values", tc.name, i, len(ws))
			}
			for _, w := range ws {
				if w.differs() != "" {
					wrong = fmt.Sprintf("rank %d", i)
				}
			}
		}
		if wrong != tc.wrong {
			t.Errorf("%s: %q is wrong, want %q", tc.name, wrong, tc.wrong)
		}
	}
}

// TestExchangeOfOne: the only rank of a group has what it put in, bit for bit.
func TestExchangeOfOne(t *testing.T) {
	of := func(x ...float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{len(x)}, x).Rounded() }
	for _, name := range []string{"all_reduce", "reduce_scatter_tensor", "reduce_scatter_single",
		"all_gather_into_tensor", "all_gather_single"} {
		for _, tc := range []struct {
			got  float64
			want bool // it is wrong
		}{{2, false}, {2 + 0x1p-22, true}, {0, true}} {
			before, after := []*tensor.Tensor{of(0, 0), of(1, 2)}, []*tensor.Tensor{of(1, tc.got), of(1, 2)}
			if name == "all_reduce" {
				before, after = before[1:], after[:1]
			}
			x := exchange{name, []int{0}, nil}
			ws := x.wants([]side{{&capture.Call{Kwargs: &value.Dict{}}, before, after}}, 0)
			if len(ws) != 1 || (ws[0].differs() != "") != tc.want {
				t.Errorf("%s of %v: got %d values, wrong %v, want %v", name, tc.got, len(ws),
					len(ws) == 1 && ws[0].differs() != "", tc.want)
			}
		}
	}
}

// TestExchangeFactor: a result that is off by the number of ranks says so.
func TestExchangeFactor(t *testing.T) {
	of := func(x ...float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{len(x)}, x).Rounded() }
	for _, tc := range []struct {
		got    *tensor.Tensor
		reduce string
		want   string // "" for no factor
	}{
		{of(8, 12), "AVG", "; all are 4 times too large"},
		{of(2, 3), "SUM", "; all were divided by 4"},
		{of(8, 13), "AVG", ""},
	} {
		parts := []*tensor.Tensor{of(1, 2), of(2, 3), of(2, 3), of(3, 4)}
		w := want{got: tc.got, parts: parts, n: 2, reduce: tc.reduce}
		text := w.differs()
		if text == "" || !strings.Contains(text, tc.want) || tc.want == "" && strings.Contains(text, "all ") {
			t.Errorf("%v by %s: got %q, want %q", tensor.Data[float64](tc.got), tc.reduce, text, tc.want)
		}
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
