package step

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A located tensor is one of a recorded call, and where it lay.
type located struct {
	address int
	shape   []int
	data    []float64
}

// record writes a call in op_tools' layout below root, without a result if that has no shape.
func record(t *testing.T, root string, id int, op string, args []any, kwargs *value.Dict, result located) {
	t.Helper()
	dir := filepath.Join(root, "op_tools_results", "op_capture_results", op, "7", fmt.Sprint(id), "2026-11-22-14-07-58")
	write := func(file string, args []any, kwargs *value.Dict) {
		var items []value.Value
		var places []map[string]any
		for _, a := range args {
			l, ok := a.(located)
			if !ok {
				items, places = append(items, a), append(places, nil)
				continue
			}
			items = append(items, tensor.New(tensor.Float32, l.shape, l.data).Rounded())
			places = append(places, map[string]any{"data_ptr": l.address})
		}
		if kwargs == nil {
			kwargs = &value.Dict{}
		}
		call := &value.Dict{Items: []value.Item{{Key: "name", Value: op},
			{Key: "args", Value: value.NewTuple(items...)}, {Key: "kwargs", Value: kwargs}}}
		sidecar, err := json.Marshal(map[string]any{"op": op, "args": places})
		if err := errors.Join(err, os.MkdirAll(dir, 0o755), pthformat.WriteFile(filepath.Join(dir, file), call),
			os.WriteFile(filepath.Join(dir, file+".json"), sidecar, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("input.pth", args, kwargs)
	if result.shape != nil {
		write("output.pth", []any{result}, nil)
	}
}

// TestOverwritten: what a recorded call made is changed if some of its elements differ
// for a reader of the same memory, by whatever name or part the reader has it, and no
// recorded call wrote there; else it was written by a call, or something else lies there.
func TestOverwritten(t *testing.T) {
	numbers := func(n int, f func(i int) float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = f(i)
		}
		return out
	}
	double := func(x []float64) []float64 { return numbers(len(x), func(i int) float64 { return 2 * x[i] }) }
	x := numbers(32, func(i int) float64 { return float64(i) + 1 })
	stray := slices.Clone(x)
	stray[13], stray[14] = 99, 98
	other := numbers(32, func(i int) float64 { return -float64(i) })
	const made = 8000 // where the result of relu lies
	for _, tc := range []struct {
		name   string
		view   []int    // a view of it, recorded between
		write  *located // what a recorded call makes of a part of it
		reader located
		want   string // the beginning of the reason, "" for no finding
	}{
		{"as it was", []int{32}, nil, located{made, []int{4, 8}, x}, ""},
		{"by its name", nil, nil, located{made, []int{4, 8}, stray},
			"2 of 32 elements changed, the first at [1, 5], the last at [1, 6]"},
		{"behind a view", []int{32}, nil, located{made, []int{4, 8}, stray}, "2 of 32 elements changed"},
		{"by another view", nil, nil, located{made, []int{8, 4}, stray}, "2 of 32 elements changed, the first at [3, 1]"},
		{"a part", nil, nil, located{made + 32, []int{3, 8}, stray[8:]}, "2 of 24 elements changed, the first at [0, 5]"},
		{"a part as it was", nil, nil, located{made + 32, []int{3, 8}, x[8:]}, ""},
		{"another part", nil, nil, located{made + 64, []int{2, 8}, stray[16:]}, ""},
		{"something else", []int{32}, nil, located{made, []int{4, 8}, other}, ""},
		{"something else in a part", nil, nil, located{made + 32, []int{3, 8}, other[8:]}, ""},
		{"a recorded write", []int{32}, &located{made + 52, []int{2}, []float64{99, 98}},
			located{made, []int{4, 8}, stray}, ""},
		{"a recorded write to a part", nil, &located{made + 52, []int{2}, []float64{99, 98}},
			located{made + 32, []int{3, 8}, stray[8:]}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			result := located{made, []int{4, 8}, x}
			record(t, root, 1, "torch.relu", []any{located{1000, []int{4, 8}, x}}, nil, result)
			if tc.view != nil {
				record(t, root, 2, "torch.Tensor.reshape", []any{result, value.NewTuple(int64(-1))}, nil,
					located{made, tc.view, x})
			}
			if w := tc.write; w != nil {
				part := (w.address - made) / 4
				before := located{w.address, w.shape, x[part : part+len(w.data)]}
				record(t, root, 3, "torch.Tensor.add_", []any{before, located{2000, w.shape,
					numbers(len(w.data), func(i int) float64 { return w.data[i] - before.data[i] })}}, nil, *w)
			}
			record(t, root, 4, "torch.Tensor.mul", []any{tc.reader, 2.0}, nil,
				located{20000, tc.reader.shape, double(tc.reader.data)})
			var got []string
			for _, f := range analyse(t, root).Findings {
				got = append(got, fmt.Sprintf("%s %s: %s", f.Rule, f.Call, f.Reason))
			}
			want := "changed torch.Tensor.mul/4: " + tc.want
			if len(got) != min(1, len(tc.want)) || tc.want != "" && !strings.HasPrefix(got[0], want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestWrittenAlike: a call that writes what was there leaves it for the next one, which is no change.
func TestWrittenAlike(t *testing.T) {
	const rows, columns, at = 4, 8, 8000
	x := make([]float64, rows*columns)
	for i := range x {
		x[i] = float64(i + 1)
	}
	column := func(k int) located {
		c := located{address: 1000 * k, shape: []int{rows}}
		for i := range rows {
			c.data = append(c.data, x[i*columns+k])
		}
		return c
	}
	root, whole := t.TempDir(), located{at, []int{rows, columns}, x}
	record(t, root, 1, "torch.Tensor.mul", []any{located{64, whole.shape, x}, 1.0}, nil, whole)
	for k := range 2 { // whole[:, k] = the same column
		record(t, root, k+2, "torch.Tensor.__setitem__", []any{whole, value.NewTuple(value.Ellipsis{}, int64(k)),
			column(k)}, nil, located{})
	}
	record(t, root, 4, "torch.Tensor.mul", []any{whole, 1.0}, nil, located{32000, whole.shape, x})
	for _, f := range analyse(t, root).Findings {
		t.Errorf("%s %s: %s", f.Rule, f.Call, f.Reason)
	}
}

// TestStatistics: running statistics are what the call before left, up to rounding.
func TestStatistics(t *testing.T) {
	const channels = 96
	row := func(f func(i int) float64) []float64 {
		out := make([]float64, channels)
		for i := range out {
			out[i] = f(i)
		}
		return out
	}
	mean := row(func(i int) float64 { return 0.1 * float64(i+1) })
	x := append(row(func(i int) float64 { return float64(i) }), row(func(i int) float64 { return float64(i) + 2 })...)
	y := append(row(func(int) float64 { return -1 }), row(func(int) float64 { return 1 })...)
	for _, tc := range []struct {
		name   string
		poked  int // where the mean was overwritten, -1: nowhere
		reason string
	}{
		{"as it was left", -1, ""},
		{"a sampled element", 0, "1 of 96 elements are not what input[1] of torch.nn.functional.batch_norm/1 was left with"},
		{"an element between", 1, "1 of 96 elements are not what input[1]"},
	} {
		root := t.TempDir()
		kwargs := &value.Dict{Items: []value.Item{{Key: "training", Value: true}, {Key: "momentum", Value: 0.1},
			{Key: "eps", Value: 0.0}}}
		zero, one := row(func(int) float64 { return 0 }), row(func(int) float64 { return 1 })
		// 0.9 * 0 + 0.1 * (i + 1), and 0.9 * 1 + 0.1 * 2
		seen := slices.Clone(mean)
		if tc.poked >= 0 {
			seen[tc.poked] = 7
		}
		for id, stats := range [][2][]float64{{zero, one}, {seen, row(func(i int) float64 { return 1.1 })}} {
			record(t, root, id+1, "torch.nn.functional.batch_norm",
				[]any{located{64000 * (id + 1), []int{2, channels}, x}, located{8000, []int{channels}, stats[0]},
					located{16000, []int{channels}, stats[1]}}, kwargs,
				located{32000 * (id + 5), []int{2, channels}, y})
		}
		var got []string
		tr := analyse(t, root)
		for _, f := range tr.Findings {
			got = append(got, f.Reason)
		}
		if len(got) != min(1, len(tc.reason)) || tc.reason != "" && !strings.HasPrefix(got[0], tc.reason) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.reason)
		}
		for _, v := range tr.Calls()[1].Inputs[1:] {
			if v.From.Value == nil {
				t.Errorf("%s: %s is not linked to the call before", tc.name, v.Target)
			}
		}
	}
}

// TestUpdated: a parameter that the update finds overwritten was so before the backward
// pass, as far as anyone can tell.
func TestUpdated(t *testing.T) {
	clean := open(t, "clean")
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/clean")); err != nil {
		t.Fatal(err)
	}
	update := lookup(clean, "add_/13 input[0]").Call.Entry.Rel
	poke(t, filepath.Join(root, filepath.FromSlash(update), "input.pth"), 0, []float64{.5, .5, .5})
	fs := analyse(t, root).Findings
	if len(fs) == 0 || fs[0].Call.Value(fs[0].Target).name() != "add_/13 input[0]" ||
		!strings.HasPrefix(fs[0].Reason, "3 of 128 elements changed, the first at [0, 5], the last at [0, 7]") {
		t.Errorf("got %+v, want the parameter changed", fs)
	}
}
