package collective

import (
	"fmt"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestSettle: an asynchronous call is judged by what was found where it writes; a functional one by its result, which
// those that gather or scatter have first.
func TestSettle(t *testing.T) {
	of := func(x ...float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{len(x)}, x).Rounded() }
	list := func(ts ...*tensor.Tensor) []*tensor.Tensor { return ts }
	was := of(0, 0)
	for _, tc := range []struct {
		op            string
		before, found []*tensor.Tensor
		want          int // how many tensors, 0 if what the call writes was not found
	}{
		{"torch.distributed.all_reduce", list(was), list(of(1, 2)), 1},
		{"torch.distributed.all_reduce", list(was), list(nil), 0},
		{"torch.distributed.all_gather", list(was, was, of(1, 2)), list(of(1, 2), of(3, 4), nil), 3},
		{"torch.distributed.all_gather", list(was, was, of(1, 2)), list(of(1, 2), nil, nil), 0},
		{"torch.distributed.all_to_all_single", list(was, of(1, 2)), nil, 0},
		{"torch.ops._c10d_functional.all_reduce", list(was), list(of(1, 2)), 1},
		{"torch.ops._c10d_functional.all_gather_into_tensor", list(was), list(of(1, 2, 3, 4)), 2},
		{"torch.ops._c10d_functional.all_reduce", list(was), list(nil), 0},
	} {
		s := side{rec: &capture.Call{Op: tc.op}, before: tc.before, after: tc.found}
		ok := s.settle(2)
		if ok != (tc.want > 0) || ok && len(s.after) != tc.want {
			t.Errorf("%s of %d: %v, %d tensors", tc.op, len(tc.before), ok, len(s.after))
		}
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
		x := &Exchange{tc.name, []int{0, 1}, nil}
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
				if n, _ := w.differs(); n > 0 {
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
			x := &Exchange{name, []int{0}, nil}
			ws := x.wants([]side{{&capture.Call{Kwargs: &value.Dict{}}, before, after}}, 0)
			if len(ws) != 1 {
				t.Fatalf("%s: got %d values", name, len(ws))
			}
			if n, reason := ws[0].differs(); (n > 0) != tc.want {
				t.Errorf("%s of %v: %q, want wrong %v", name, tc.got, reason, tc.want)
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
		_, text := w.differs()
		if text == "" || !strings.Contains(text, tc.want) || tc.want == "" && strings.Contains(text, "all ") {
			t.Errorf("%v by %s: got %q, want %q", tensor.Data[float64](tc.got), tc.reduce, text, tc.want)
		}
	}
}

// TestIntegersWrap: a sum of integers is what the dtype holds of it.
func TestIntegersWrap(t *testing.T) {
	of := func(x float64) *tensor.Tensor { return tensor.New(tensor.Uint8, []int{1}, []float64{x}).Rounded() }
	for got, wrong := range map[float64]bool{44: false, 255: true} {
		w := want{got: of(got), parts: []*tensor.Tensor{of(200), of(100)}, n: 1, reduce: "SUM"}
		if n, reason := w.differs(); (n > 0) != wrong {
			t.Errorf("200 + 100 = %g in uint8: %q, want wrong %v", got, reason, wrong)
		}
	}
}

// TestUnequalParts: all_to_all_single with parts of different sizes.
func TestUnequalParts(t *testing.T) {
	of := func(x ...float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{len(x)}, x).Rounded() }
	sides := func(first, second []float64) []side {
		kwargs := func(out, in *value.Sequence) *capture.Call {
			return &capture.Call{Kwargs: &value.Dict{Items: []value.Item{{Key: "output_split_sizes", Value: out},
				{Key: "input_split_sizes", Value: in}}}}
		}
		a, b := of(1, 2, 3), of(4)
		return []side{
			{kwargs(value.NewList(int64(1), int64(1)), value.NewList(int64(1), int64(2))),
				[]*tensor.Tensor{of(0, 0), a}, []*tensor.Tensor{of(first...), a}},
			{kwargs(value.NewList(int64(2), int64(0)), value.NewList(int64(1), int64(0))),
				[]*tensor.Tensor{of(0, 0), b}, []*tensor.Tensor{of(second...), b}},
		}
	}
	x := &Exchange{"all_to_all_single", []int{0, 1}, nil}
	for _, tc := range []struct {
		second []float64
		wrong  bool
	}{{[]float64{2, 3}, false}, {[]float64{1, 2}, true}} {
		s := sides([]float64{1, 4}, tc.second)
		for i := range s {
			j := x.judge(s, i)
			if j.Why != "" || len(j.Values) != 1 || (j.Values[0].Reason != "") != (tc.wrong && i == 1) {
				t.Errorf("rank %d has %v: got %+v", i, tc.second, j)
			}
		}
	}
}

// TestPeer: the other rank of a message is given by its number of all ranks, or of those of the group.
func TestPeer(t *testing.T) {
	for _, tc := range []struct {
		op, name string
		number   int64
		want     int
	}{
		{"torch.distributed.irecv", "src", 1, 1},
		{"torch.distributed.irecv", "group_src", 1, 5},
		{"torch.distributed.send", "group_dst", 0, 3},
		{"torch.distributed.send", "group_dst", 2, -1},
		{"torch.distributed.send", "group_src", 0, -1},
	} {
		rec := &capture.Call{Kwargs: &value.Dict{Items: []value.Item{{Key: tc.name, Value: tc.number}}}}
		if got := Peer(&capture.Entry{Name: capture.Name{Op: tc.op}, Group: []int{3, 5}}, rec); got != tc.want {
			t.Errorf("%s(%s=%d): rank %d, want %d", tc.op, tc.name, tc.number, got, tc.want)
		}
	}
}
