package cli_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestFirstNotFinite: check says before everything else which call made the first value that is not finite, of a known
// operator or not, and so does each report.
func TestFirstNotFinite(t *testing.T) {
	in := func(x ...float64) value.Value { return tensor.New(tensor.Float32, []int{len(x)}, x) }
	nan, inf := math.NaN(), math.Inf(1)
	dir := t.TempDir()
	for id, c := range map[string]struct {
		op      string
		args    []value.Value
		returns value.Value
	}{
		"1": {"torch.log", []value.Value{in(0, 1)}, in(-inf, 0)},
		"2": {"mylib.fancy", []value.Value{in(1, 2)}, in(1, nan)},
		"3": {"torch.neg", []value.Value{in(1, nan)}, in(-1, nan)},
		"4": {"torch.empty_like", []value.Value{in(1, 2)}, in(nan, 1)},
	} {
		for name, vs := range map[string][]value.Value{"input": c.args, "output": {c.returns}} {
			rec := dict("name", c.op, "args", value.NewTuple(vs...), "kwargs", dict(), "identifier", id+"/x/"+name)
			save(t, rec, dir, c.op, "7", id, "2026-11-22-10-00-0"+id, name+".pth")
		}
	}
	const want = "mylib.fancy, id 2, process 7: output[0] at [1] is nan, all inputs are finite."
	html, md := filepath.Join(t.TempDir(), "r.html"), filepath.Join(t.TempDir(), "r.md")
	var out, errs strings.Builder
	code := cli.Main([]string{"check", "--html", html, "--markdown", md, dir},
		cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	if code != cli.ExitDiffers || !strings.HasPrefix(out.String(), "First value that is not finite: "+want) {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	for _, path := range []string{html, md} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(want, ",")
		if !strings.Contains(strings.ReplaceAll(string(b), `\`, ""), text+", id 2, process 7: output[0] at [1]") {
			t.Errorf("%s does not say it: %s", path, text)
		}
	}
}
