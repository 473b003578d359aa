package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// folders copies recordings into folders of one directory.
func folders(t *testing.T, from map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, path := range from {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(path)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// inOrder matches a text that has parts one after the other.
func inOrder(parts ...string) *regexp.Regexp {
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("(?s)" + strings.Join(parts, ".*"))
}

// TestStepOfSeveralPrograms: the programs of several folders are judged one by one, the worst first.
func TestStepOfSeveralPrograms(t *testing.T) {
	dir := folders(t, map[string]string{"a-sound": "../../step/testdata/block", "b-scaled": "../../step/testdata/scaled",
		"c-changed": "../../step/testdata/overwritten"})
	var out, errs bytes.Buffer
	file := filepath.Join(t.TempDir(), "step.jsonl")
	streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
	code := cli.Main([]string{"step", "--json", file, dir}, streams)
	want := inOrder("3 programs, each judged by itself: 2 wrong, 1 with nothing found wrong", "c-changed ", "b-scaled ",
		"a-sound ", "\nc-changed:\nCHANGED: input[1] of torch.Tensor.add/7", " step "+filepath.Join(dir, "c-changed")+"\n",
		"\nb-scaled:\nWRONG: output[0] of torch.nn.functional.gelu/4", "the fault moves it by",
		" step "+filepath.Join(dir, "b-scaled")+"\n", " step "+filepath.Join(dir, "a-sound")+"\n")
	if code != cli.ExitDiffers || !want.MatchString(out.String()) {
		t.Errorf("exit code %d: got\n%s%s", code, out.String(), errs.String())
	}
	var last struct {
		Kind     string
		First    struct{ Capture string }
		Calls    int
		Programs []struct{ Program, Verdict string }
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
		t.Fatal(err)
	}
	if last.Kind != "summary" || !strings.HasPrefix(last.First.Capture, "c-changed/") || last.Calls != 86 ||
		len(last.Programs) != 3 || last.Programs[2].Program != "a-sound" || last.Programs[2].Verdict != "pass" {
		t.Errorf("the last record is %s", lines[len(lines)-1])
	}
}

// TestStepOfSoundPrograms: where no program has a finding the exit code is 0.
func TestStepOfSoundPrograms(t *testing.T) {
	dir := folders(t, map[string]string{"a": "../../step/testdata/block", "b": "../../step/testdata/block"})
	var out, errs bytes.Buffer
	code := cli.Main([]string{"step", dir}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	const want = "2 programs, each judged by itself: 2 with nothing found wrong\n"
	if code != cli.ExitOK || !strings.HasPrefix(out.String(), want) {
		t.Errorf("exit code %d: got\n%s%s", code, out.String(), errs.String())
	}
}

// TestPartsOfOneProgram: folders of different ranks are parts of one program.
func TestPartsOfOneProgram(t *testing.T) {
	const ranks = "../../step/parallel/testdata/tensor-bias"
	dir := folders(t, map[string]string{"host1/rank0": ranks + "/rank0", "host2/rank1": ranks + "/rank1"})
	var out, errs bytes.Buffer
	code := cli.Main([]string{"step", dir}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	if code != cli.ExitDiffers || !strings.Contains(out.String(), "PARALLEL: ") {
		t.Errorf("exit code %d: got\n%s%s", code, out.String(), errs.String())
	}
}

// TestOneProgramOnly: what shows one program names the command for each of several.
func TestOneProgramOnly(t *testing.T) {
	dir := folders(t, map[string]string{"a": "../../step/testdata/block", "b": "../../step/testdata/scaled"})
	other := folders(t, map[string]string{"a": "../../step/testdata/block", "b": "../../step/testdata/scaled"})
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	block, err := filepath.Abs("../../step/testdata/block")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--html", "step.html", dir}, []string{"holds the recordings of 2 programs:", " step --html step.html " + a,
			" step --html step.html " + b, "--html is about one program: run one of these commands"}},
		{[]string{"--against", other, dir}, []string{" step --against " + filepath.Join(other, "a") + " " + a,
			"--against is about one program"}},
		{[]string{"--against", other, "../../step/testdata/block"}, []string{" step --against " + filepath.Join(other, "a") +
			" " + block}},
	} {
		var out, errs bytes.Buffer
		streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
		code := cli.Main(append([]string{"step"}, c.args...), streams)
		if code != cli.ExitUsage || !inOrder(c.want...).MatchString(errs.String()) {
			t.Errorf("%v: exit code %d: got\n%s%s", c.args, code, out.String(), errs.String())
		}
	}
}

// TestTitleOfPage: the title of a step's page names the recording.
func TestTitleOfPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "step.html")
	var out, errs bytes.Buffer
	cli.Main([]string{"step", "--html", page, "../../step/testdata/scaled/"},
		cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	text, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(text, []byte("<title>optool step scaled: Wrong: ")) {
		t.Errorf("%v: got %.300s%s", err, text, errs.String())
	}
}

// TestOneProgramElsewhere: the command for each of several programs works in any directory.
func TestOneProgramElsewhere(t *testing.T) {
	dir := folders(t, map[string]string{"a": "../../step/testdata/block", "b": "../../step/testdata/scaled"})
	t.Chdir(filepath.Dir(dir))
	var out, errs bytes.Buffer
	cli.Main([]string{"step", "--html", "step.html", filepath.Base(dir)},
		cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	if want := " step --html step.html " + filepath.Join(dir, "b") + "\n"; !strings.Contains(errs.String(), want) {
		t.Errorf("want %q, got\n%s%s", want, out.String(), errs.String())
	}
}
