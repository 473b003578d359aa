package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const savedPairs = "../../fixtures/captures/autocompare"

// TestStepOfPairs: a tree of failures that op_tools saved one by one is no step. step says what it is and what to
// record instead, and nothing leads a reader there.
func TestStepOfPairs(t *testing.T) {
	for _, args := range [][]string{{"step", savedPairs}, {"step", savedPairs, "--against", savedPairs}} {
		got := run(t, 3, args...)
		for _, want := range []string{"no step: 13 device/CPU pairs of failed calls", "fixtures/captures/autocompare` judges these",
			"record all of its calls"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q does not say %q: %s", args, want, got)
			}
		}
	}
	other := t.TempDir()
	if err := os.CopyFS(other, os.DirFS(savedPairs)); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"output.pth", "grad_inputs.pth"} {
		calls, err := filepath.Glob(other + "/op_tools_results/op_capture_results/torch.softmax/*/autocompare/12/*")
		if err != nil || len(calls) != 1 {
			t.Fatal(calls, err)
		}
		right, err := os.ReadFile(filepath.Join(calls[0], "cpu", kind))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(calls[0], "device", kind), right, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	repaired := run(t, 1, "compare", other, savedPairs)
	want := "at [1, 4, 4] the old recording has -0.01511146, which is wrong, the new one 1.6356455e-06"
	if !strings.Contains(repaired, want) {
		t.Errorf("no %q in %s", want, repaired)
	}
	if got := run(t, 1, "compare", savedPairs); !strings.Contains(got, "Where replay passes a value, trust replay:\n") {
		t.Errorf("compare of one tree does not lead to replay: %s", got)
	} else if strings.Contains(got, "FAIL  torch.Tensor.float") ||
		!strings.Contains(got, "2 values not judged: gradients belong to another op (torch.Tensor.float)\n") {
		t.Errorf("the gradients of another operator are no fault: %s", got)
	}
	page := filepath.Join(t.TempDir(), "r.md")
	for text, args := range map[string][]string{
		"compare": {"compare", savedPairs, other},
		"replay":  {"replay", "--out", t.TempDir(), "--markdown", page, savedPairs},
		"explain": {"explain", savedPairs},
	} {
		if got := run(t, 1, args...); strings.Contains(got, "optool step") || strings.Contains(got, " step ") {
			t.Errorf("%s leads to step: %s", text, got)
		}
	}
	if b, err := os.ReadFile(page); err != nil || strings.Contains(string(b), "optool step") {
		t.Errorf("the report leads to step: %s, %v", b, err)
	}
}

// TestReplaySides: replay leads with the call one of whose operands differs between the sides of its pair.
func TestReplaySides(t *testing.T) {
	got := run(t, 1, "replay", "--out", t.TempDir(), savedPairs)
	for _, want := range []string{"Changed between the two sides of a pair: torch.Tensor.permute, id 9", "22 of 96 elements " +
		"differ between device/input.pth and cpu/input.pth, by up to 1.52: at", "first wrong call: torch.softmax, id 12"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// TestBundleRecordedOn: README of a bundle names the device of the recording.
func TestBundleRecordedOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.zip")
	run(t, 1, "bundle", "--op", "torch.softmax", "-o", file, savedPairs)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range unzipped(t, "b.zip", b) {
		if filepath.Base(path) == "README.md" && !strings.Contains(string(text), "- recorded on npu:0\n") {
			t.Errorf("README.md does not name the device: %s", text)
		}
	}
}

// TestSidesInReports: that the sides of a pair hold different arguments stands in each report where the first wrong
// call is named, as on the screen.
func TestSidesInReports(t *testing.T) {
	dir := t.TempDir()
	args := []string{"replay", "--out", dir}
	reports := []string{"--markdown", "--html", "--junit"}
	for _, flag := range reports {
		args = append(args, flag, filepath.Join(dir, flag))
	}
	const head = "hanged between the two sides of a pair"
	if screen := run(t, 1, append(args, savedPairs)...); !strings.Contains(screen, "C"+head) {
		t.Errorf("not on the screen: %s", screen)
	}
	for _, flag := range reports {
		page, err := os.ReadFile(filepath.Join(dir, flag))
		if err != nil {
			t.Fatal(err)
		}
		at, first := strings.Index(string(page), head), strings.Index(string(page), "irst wrong call")
		if at < 0 || at > first {
			t.Errorf("%s: at %d, the first wrong call at %d", flag, at, first)
		}
	}
}
