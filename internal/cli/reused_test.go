package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// TestReusedMemory: AdamW's square root lay where the next backward pass puts a gradient. compare does not say that it
// wrote the gradient. reused.tar.gz holds two runs of a small model; a kernel that was not recorded multiplies a
// gradient of the second.
func TestReusedMemory(t *testing.T) {
	dir := unpacked(t, "testdata/reused.tar.gz")
	for _, run := range []string{"good", "bad"} {
		logs, err := filepath.Glob(filepath.Join(dir, run, "rank0", "*", "calls.jsonl"))
		if err != nil || len(logs) != 1 {
			t.Fatalf("%v, %v", logs, err)
		}
		raw, err := os.ReadFile(logs[0])
		if err != nil {
			t.Fatal(err)
		}
		root, gradient := pointers(t, raw)
		raw = bytes.ReplaceAll(raw, []byte(gradient), []byte(root))
		if err := os.WriteFile(logs[0], raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	code := cli.Main([]string{"compare", "--quiet", filepath.Join(dir, "bad"), filepath.Join(dir, "good")},
		cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	if code != cli.ExitDiffers || strings.Contains(out.String(), "sqrt/") ||
		!strings.Contains(out.String(), "no recorded call is known to have written it") {
		t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
	}
}

// pointers are where a recording says that the square root of the third parameter's update lies, in the first step,
// and the gradient of that parameter in the second one.
func pointers(t *testing.T, raw []byte) (root, gradient string) {
	t.Helper()
	type tensor struct{ Ptr json.Number }
	roots := map[int]bool{}
	var all []string
	for line := range strings.Lines(string(raw)) {
		var e struct {
			Event, Name string
			ID, Step    int
			Args        []json.RawMessage
			Result      json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == "call" && e.Step == 0 && e.Name == "torch.Tensor.sqrt" {
			roots[e.ID] = true
		}
		if e.Event == "return" && roots[e.ID] {
			var x tensor
			if err := json.Unmarshal(e.Result, &x); err != nil {
				t.Fatal(err)
			}
			all = append(all, string(x.Ptr))
		}
		if e.Event == "call" && e.Step == 1 && e.Name == "torch.optim.adam.adam" {
			var gs []tensor
			if err := json.Unmarshal(e.Args[1], &gs); err != nil {
				t.Fatal(err)
			}
			gradient = string(gs[2].Ptr)
		}
	}
	if len(all) != 4 || gradient == "" {
		t.Fatalf("%d square roots, gradient at %q", len(all), gradient)
	}
	return all[2], gradient
}
