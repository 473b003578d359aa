package checkpoint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// dumped is the file of a value as SGLang's dumper writes it, on a rank of axes.
func dumped(v value.Value, dims string, axes ...any) value.Value {
	meta := dict("sglang_parallel_info", dict(axes...))
	if dims != "" {
		meta.Items = append(meta.Items, value.Item{Key: "dims", Value: dims})
	}
	return dict("value", v, "meta", meta)
}

func dumpName(step, rank, index int, name string) string {
	return fmt.Sprintf("step=%d___rank=%d___dump_index=%d___name=%s___layer_id=2.pt", step, rank, index, name)
}

func TestDims(t *testing.T) {
	on := func(axis string, rank, size int) []any {
		return []any{axis + "_rank", int64(rank), axis + "_size", int64(size)}
	}
	ranks := func(dims, axis string, values ...value.Value) map[string]value.Value {
		files := map[string]value.Value{}
		for i, v := range values {
			files[dumpName(0, i, 1, "x")] = dumped(v, dims, on(axis, i, len(values))...)
		}
		return files
	}
	row := func(v ...float64) *tensor.Tensor { return matrix(1, len(v), v...) }
	grid := map[string]value.Value{} // two ranks of tp times two of cp
	for i := range 4 {
		grid[dumpName(0, i, 1, "x")] = dumped(row(float64(i), float64(i)+10), "t[cp] (heads*d)[tp] # made by hand",
			append(on("tp", i%2, 2), on("cp", i/2, 2)...)...)
	}
	for _, tc := range []struct {
		name  string
		files map[string]value.Value
		want  string // name and elements of each value, or the failure
	}{
		{"columns", ranks("t h[tp]", "tp", row(1, 2), row(3, 4)), "step0 x layer_id=2 [1 4] 1 2 3 4"},
		{"rows", ranks("t[sp] h", "sp", row(1, 2), row(3, 4)), "step0 x layer_id=2 [2 2] 1 2 3 4"},
		{"zigzag", ranks("b s[cp:zigzag]", "cp", row(1, 2, 7, 8), row(3, 4, 5, 6)),
			"step0 x layer_id=2 [1 8] 1 2 3 4 5 6 7 8"},
		{"summands", ranks("t h[tp:partial]", "tp", row(1, 2), row(3, 4)), "step0 x layer_id=2 [1 2] 4 6"},
		{"two axes", grid, "step0 x layer_id=2 [2 4] 0 10 1 11 2 12 3 13"},
		{"replicated", ranks("t h", "tp", row(1, 2), row(1, 2)), "step0 x layer_id=2 [1 2] 1 2"},
		{"replicated, not the same", ranks("t h", "tp", row(1, 2), row(1, 3)), "different values"},
		{"no dims", ranks("", "tp", row(1, 2), row(1, 3)), "no dims were recorded, and"},
		{"one rank", map[string]value.Value{dumpName(3, 0, 1, "x"): dumped(row(1), "t h[tp]")},
			"step3 x layer_id=2 [1 1] 1"},
		{"a rank is missing", map[string]value.Value{dumpName(0, 0, 1, "x"): dumped(row(1), "t h[tp]",
			on("tp", 0, 2)...)}, "dimension h[tp]: 1 of 2 ranks of tp are there"},
		{"other sizes", map[string]value.Value{dumpName(0, 0, 1, "x"): dumped(row(1), "t h[tp]", on("tp", 0, 2)...),
			dumpName(0, 1, 1, "x"): dumped(row(1), "t h[tp]", on("tp", 1, 3)...)}, "has 2 ranks of tp"},
		{"more dims", ranks("b t h[tp]", "tp", row(1), row(2)), "3 dims were recorded of float32[1, 1]"},
		{"an axis twice", ranks("t[tp] h[tp]", "tp", row(1), row(2)), "axis tp splits two dimensions"},
		{"odd zigzag", ranks("t h[cp:zigzag]", "cp", row(1), row(2)), "do not divide into halves"},
		{"an unknown axis", ranks("t h[xp]", "tp", row(1), row(2)), `"xp" is not an axis of ranks`},
		{"an unknown order", ranks("t h[tp:spiral]", "tp", row(1), row(2)), `"spiral" is not known of an axis`},
		{"not dims", ranks("t ]h", "tp", row(1), row(2)), `"]h" is not a dimension`},
		{"an impossible rank", map[string]value.Value{dumpName(0, 0, 1, "x"): dumped(row(1), "t h[tp]",
			on("tp", 2, 2)...)}, "tp rank 2 of 2"},
		{"no dict", map[string]value.Value{dumpName(0, 0, 1, "x"): row(1), dumpName(0, 1, 1, "y"): row(1)}, "not a dict"},
		{"the order of a dump", map[string]value.Value{dumpName(0, 0, 10, "late"): dumped(row(1), "t h"),
			dumpName(0, 0, 9, "early"): dumped(row(2), "t h"), dumpName(0, 0, 11, "early"): dumped(row(3), "t h")},
			"step0 early layer_id=2 [1 1] 2, step0 late layer_id=2 [1 1] 1, step0 early layer_id=2 #2 [1 1] 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := open(t, tree(t, tc.files), true)
			j, err := ParseJoin([]string{"dims"})
			if err == nil {
				err = s.Unshard(j, func(string) []int { return nil })
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range s.Values {
				v := n.Value.(*tensor.Tensor)
				text := strings.Trim(fmt.Sprint(tensor.Data[float64](v)), "[]")
				got = append(got, fmt.Sprint(n.Name, " ", v.Shape, " ", text))
			}
			for _, f := range s.Failures {
				got = append(got, f.Err.Error())
			}
			if text := strings.Join(got, ", "); text != tc.want && (len(s.Failures) == 0 ||
				!strings.Contains(text, tc.want)) {
				t.Errorf("got %s, want %s", text, tc.want)
			}
		})
	}
}

// Values of files that SGLang did not write say nothing of dims.
func TestDimsOfOthers(t *testing.T) {
	s := open(t, tree(t, map[string]value.Value{"rank0/a.pt": dict("w", matrix(1, 1, 1)),
		"rank1/a.pt": dict("w", matrix(1, 1, 1))}), true)
	j, err := ParseJoin([]string{"dims"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Unshard(j, func(string) []int { return nil }); err != nil {
		t.Fatal(err)
	}
	if len(s.Failures) != 1 || !strings.Contains(s.Failures[0].Err.Error(), "does not say how ranks share dimensions") {
		t.Errorf("failures %v", s.Failures)
	}
}
