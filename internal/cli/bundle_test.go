package cli_test

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/tensor/value"
)

// run runs a command with an exit code, and returns what it prints.
func run(t *testing.T, code int, args ...string) string {
	t.Helper()
	var text strings.Builder
	if got := cli.Main(args, cli.Streams{In: strings.NewReader(""), Out: &text, Err: &text}); got != code {
		t.Errorf("%q: exit code %d, want %d: %s", args, got, code, &text)
	}
	return text.String()
}

// TestBundleReplaced: a bundle says which function of the program was recorded in the place of torch's, and how to run
// it: torch's own may be right.
func TestBundleReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.zip")
	run(t, 1, "bundle", "--op", "torch.nn.functional.gelu", "-o", file, "testdata/replaced")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files := unzipped(t, "b.zip", b)
	for name, want := range map[string]string{
		"README.md":           "repeat.py --device cpu --function mymod:fast_gelu\n",
		"expected/names.json": `"function":"mymod:fast_gelu"`,
		"repeat.py":           `This runs {own_function(call['name'])}" +`,
	} {
		found := false
		for path, text := range files {
			found = found || strings.HasSuffix(path, name) && strings.Contains(string(text), want)
		}
		if !found {
			t.Errorf("%s: no %q", name, want)
		}
	}
}

// telltale is a copy of a recording in a directory whose name no file of a bundle may have. Its programs lie in such
// directories, too, and one call is wrong.
func telltale(t *testing.T) (recording string) {
	t.Helper()
	const process = "rank1/4711-2026-11-22-12-00-00"
	from := filepath.Join("../../fixtures/hook", process)
	recording = filepath.Join(t.TempDir(), "telltale name", "captures")
	for _, name := range []string{"calls.jsonl", "tensors-00000.safetensors"} {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.ReplaceAll(b, []byte("/tmp/train/"), []byte("/home/telltale/My Net/"))
		b = bytes.ReplaceAll(b, []byte(`"label_smoothing":0.1`), []byte(`"label_smoothing":0.2`))
		write(t, string(b), recording, process, name)
	}
	return recording
}

// unzipped are the files of an archive, those of archives in it, too.
func unzipped(t *testing.T, name string, b []byte) map[string][]byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	all := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		all[f.Name] = data
		if strings.HasSuffix(f.Name, ".pth") {
			for inner, data := range unzipped(t, f.Name, data) {
				all[f.Name+"/"+inner] = data
			}
		}
	}
	return all
}

// TestBundleNamesNoDirectory: no byte of a bundle tells in which directories its sender works, which process made the
// call, and when.
func TestBundleNamesNoDirectory(t *testing.T) {
	recording := telltale(t)
	t.Chdir(filepath.Dir(recording))
	write(t, "default: {atol: 1e-6, rtol: 1e-6}\n", "tolerances.yaml")
	write(t, `op("mylib.twice(Tensor x) -> Tensor", lambda x: 2 * x)`, "own.star")
	ops, err := filepath.Abs("own.star")
	if err != nil {
		t.Fatal(err)
	}
	tolerances, err := filepath.Abs("tolerances.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run(t, cli.ExitDiffers, "bundle", "--ops", ops, "-o", "a.zip", recording)
	run(t, cli.ExitDiffers, "bundle", "--tolerances", tolerances, "-o", "b.zip", recording)
	for _, name := range []string{"a.zip", "b.zip"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files := unzipped(t, name, b)
		if len(files) < 20 {
			t.Errorf("%s has %d files", name, len(files))
		}
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		for file, data := range files {
			for _, secret := range []string{"telltale", "TestBundle", "/home/", "My Net", "4711", "2026-11-22", host} {
				if bytes.Contains(data, []byte(secret)) {
					t.Errorf("%s, %s has %q: %.300q", name, file, secret, data)
				}
			}
		}
		text := string(files["cross_entropy/README.md"])
		if !strings.Contains(text, "train.py:40") {
			t.Errorf("%s: README.md lacks the line of the program:\n%s", name, text)
		}
		if name == "a.zip" && !strings.Contains(text, "--ops own.star call") {
			t.Errorf("README.md lacks the file of operators:\n%s", text)
		}
	}
}

// TestBundleWithoutVerdict: a call of which nothing was compared is not packed, and the message says why, and what to
// do.
func TestBundleWithoutVerdict(t *testing.T) {
	t.Chdir(t.TempDir())
	save(t, dict("name", "torch.nn.functional.relu", "args", value.NewTuple(floats(0, 3)), "kwargs", dict(), "identifier", "x"),
		"call", "input.pth")
	text := run(t, cli.ExitFailed, "bundle", "-o", "x.zip", "call")
	for _, want := range []string{"no output.pth", "--device"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if _, err := os.Stat("x.zip"); err == nil {
		t.Error("a file is written")
	}
}
