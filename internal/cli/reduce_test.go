package cli_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestReduceSum: the terms of a recorded sum cannot be cut. The screen says why nothing is smaller, and what to do. Its
// lines keep to the width, and its commands work from any directory.
func TestReduceSum(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("COLUMNS", "80")
	record := func(name string, vs ...value.Value) {
		save(t, dict("name", "torch.sum", "args", value.NewTuple(vs...), "kwargs", dict(), "identifier", "1/x/"+name),
			"call", name+".pth")
	}
	record("input", floats(0, 5))
	record("output", tensor.New(tensor.Float32, nil, []float64{1000}).Rounded())
	text := run(t, cli.ExitDiffers, "reduce", "-o", "small", "call")
	for _, want := range []string{"  recorded  self float32[5]\n  cut to    self float32[5]\nnothing can be cut: ", "--device", "the recorded value: got 1000 want ",
		" replay --tables " + dir + "/small\n", " bundle " + dir + "/small\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(line) > 81 && !strings.Contains(line, "optool") && !strings.Contains(line, ".test") {
			t.Errorf("a line of %d columns: %s", utf8.RuneCountInString(line)-1, line)
		}
	}
}
