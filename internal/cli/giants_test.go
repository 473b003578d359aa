package cli_test

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// repeated is a stored tensor all of whose elements are one number of four or eight bytes.
func repeated(t *testing.T, dt tensor.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	v, err := tensor.NewView(tensor.NewStorage(bytes.Repeat([]byte{1}, dt.Size())),
		tensor.View{DType: dt, Shape: shape, Stride: make([]int, len(shape))})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestGiants: calls that ask for more than can be computed cost themselves, neither time nor memory beyond their
// limits, whether it is an element that repeats, a size, a length of a list or a number of steps.
func TestGiants(t *testing.T) {
	giant, plane := repeated(t, tensor.Float32, 1<<33), repeated(t, tensor.Float32, 1<<17, 1<<17)
	whole := repeated(t, tensor.Int64, 200<<20, 2)
	small := floats(0, 4)
	image := floats(0, 1, 1, 4, 4)
	const huge = int64(1 << 40)
	many := &value.Sequence{}
	for range 20_000 {
		many.Items = append(many.Items, small)
	}
	list := func(n ...int64) *value.Sequence {
		s := &value.Sequence{}
		for _, x := range n {
			s.Items = append(s.Items, x)
		}
		return s
	}
	dir := t.TempDir()
	for i, args := range [][]value.Value{
		{"torch.add", giant, giant}, {"torch.sum", plane}, {"torch.sort", giant}, {"torch.cumsum", giant, int64(0)},
		{"torch.Tensor.resolve_neg", repeated(t, tensor.Int64, 1<<18, 1<<18)},
		{"torch.Tensor.narrow_copy", whole, int64(0), int64(0), int64(1)}, {"torch.matmul", plane, plane},
		{"torch.nn.functional.softmax", plane, int64(1)}, {"torch.Tensor.repeat", small, huge}, {"torch.zeros", huge},
		{"torch.zeros", list(math.MaxInt64, 7)}, {"torch.arange", huge},
		{"torch.nn.functional.pad", small, list(huge, huge)}, {"torch.nn.functional.unfold", image, huge},
		{"torch.nn.functional.max_pool2d", image, list(1<<62, 1)},
		{"torch._foreach_cosh_", many}, {"torch.nn.functional.one_hot", whole, huge},
		{"torch.index_select", giant, int64(0), repeated(t, tensor.Int64, 1<<34)},
	} {
		at := filepath.Join(dir, args[0].(string), fmt.Sprint(i))
		call := func(args ...value.Value) *value.Dict {
			return dict("name", filepath.Base(filepath.Dir(at)), "args", value.NewTuple(args...), "kwargs", dict(),
				"identifier", "1")
		}
		save(t, call(args[1:]...), at, "input.pth")
		save(t, call(small), at, "output.pth")
	}
	fuzzcheck.Returns(t, "replay of giants", func() {
		fuzzcheck.Bounded(t, 1, 4<<30, func() {
			var out, errs bytes.Buffer
			code := cli.Main([]string{"replay", "--acc_check", "--timeout", "200ms", "--memory", "256MiB", "--json", "-",
				"--out", t.TempDir(), dir}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
			if code != cli.ExitDiffers && code != cli.ExitFailed || strings.Contains(out.String()+errs.String(),
				"internal error") {
				t.Errorf("exit code %d: %s%s", code, &out, &errs)
			}
			if text := out.String(); !strings.Contains(text, `"summary"`) || !strings.Contains(text, `"captures":18,`) {
				t.Errorf("the run does not end: %s%s", text, &errs)
			}
		})
	})
}

// TestShowGiants: more values are asked for than fit.
func TestShowGiants(t *testing.T) {
	dir := t.TempDir()
	save(t, dict("a", repeated(t, tensor.Float32, 1<<40), "b", floats(0, 3)), dir, "a.pth")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--values", "3"}, cli.ExitOK, "root.a: ["},
		{[]string{"--values", "1000000000000"}, cli.ExitFailed, "a.pth: needs "},
		{[]string{"--json", "--values", "1000000000000"}, cli.ExitFailed, `"error":"needs `},
	} {
		var out, errs bytes.Buffer
		code := cli.Main(append([]string{"show", "--memory", "256MiB", filepath.Join(dir, "a.pth")}, tc.args...),
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if text := out.String() + errs.String(); code != tc.code || !strings.Contains(text, tc.want) {
			t.Errorf("%q: exit code %d, want %d and %q: %.500s", tc.args, code, tc.code, tc.want, text)
		}
	}
}
