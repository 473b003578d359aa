package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestReduceSum: the terms of a recorded sum cannot be cut. The screen says why nothing is smaller, and what to do. Its
// lines keep to the width, and its commands work where it is read.
func TestReduceSum(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("COLUMNS", "80")
	record := func(name string, vs ...value.Value) {
		save(t, dict("name", "torch.sum", "args", value.NewTuple(vs...), "kwargs", dict(), "identifier", "1/x/"+name),
			"call", name+".pth")
	}
	record("input", floats(0, 5))
	record("output", tensor.New(tensor.Float32, nil, []float64{1000}).Rounded())
	text := run(t, cli.ExitDiffers, "reduce", "-o", "small", "call")
	for _, want := range []string{"  recorded  self float32[5]\n  smallest  self float32[5]\nnothing can be cut: ", "--device",
		" replay --tables ./small\n", " bundle ./small\n"} {
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

// TestNearby: only paths below the working directory are relative to it.
func TestNearby(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	above := filepath.Dir(dir)
	for command, want := range map[string]string{
		"optool replay " + dir + "/a":           "optool replay ./a",
		"A=" + dir + "/x optool '" + dir + "/b": "A=./x optool './b",
		dir + "/optool replay " + dir:           "./optool replay " + dir,
		"optool replay " + above + "/a":         "optool replay " + above + "/a",
		"optool replay /x" + dir + "/a":         "optool replay /x" + dir + "/a",
	} {
		if got := cli.Nearby(command); got != want {
			t.Errorf("%s: got %s, want %s", command, got, want)
		}
	}
}
