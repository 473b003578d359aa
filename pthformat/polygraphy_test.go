package pthformat

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// polygraphyArray is an array as Polygraphy writes it.
func polygraphyArray(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/arrays", file))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"array": %q, "polygraphy_class": "ndarray"}`, base64.StdEncoding.EncodeToString(b))
}

func polygraphyFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.json")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPolygraphy reads what polygraphy 0.53.6 wrote with --save-outputs and --save-inputs.
func TestPolygraphy(t *testing.T) {
	for file, want := range map[string]string{
		"outputs.json": "h float32[2, 4], y float32[2, 3]",
		"inputs.json":  "x float32[2, 4]",
	} {
		f, err := Open(filepath.Join("testdata/polygraphy", file), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Format != "polygraphy" {
			t.Errorf("%s: format %s", file, f.Format)
		}
		if got := metas(f.Root); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}

// metas are the names and types of a dict's tensors.
func metas(v value.Value) string {
	d, ok := v.(*value.Dict)
	if !ok {
		return value.Str(v)
	}
	var out []string
	for _, it := range d.Items {
		if x, ok := it.Value.(*tensor.Tensor); ok {
			out = append(out, fmt.Sprint(it.Key, " ", x.Meta()))
			continue
		}
		out = append(out, fmt.Sprint(it.Key, " (", metas(it.Value), ")"))
	}
	return strings.Join(out, ", ")
}

func TestPolygraphyRuns(t *testing.T) {
	a := polygraphyArray(t, "c.npy")
	iteration := `{"outputs": {"a": ` + a + `}, "runtime": 1.5, "polygraphy_class": "IterationResult"}`
	runner := func(name string) string { return fmt.Sprintf(`[%q, [%s]]`, name, iteration) }
	f, err := Open(polygraphyFile(t, `{"lst": [`+runner("onnxrt-runner-N0-11/22/26-21:03:46")+", "+
		runner("trt-runner-N0-11/22/26-21:03:47")+`], "polygraphy_class": "RunResults"}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	one := strings.TrimPrefix(metas(f.Root), "onnxrt-runner-N0 (")
	one, _, _ = strings.Cut(one, ")")
	if want := "onnxrt-runner-N0 (" + one + "), trt-runner-N0 (" + one + ")"; metas(f.Root) != want ||
		!strings.HasPrefix(one, "a ") {
		t.Errorf("two runners: %s, want %s", metas(f.Root), want)
	}
	const other = `"b": {"x": 1, "polygraphy_class": "Tensor"}`
	f, err = Open(polygraphyFile(t, `[{"a": `+a+`}, {"a": `+a+`, `+other+`}]`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if l, ok := f.Root.(*value.Sequence); !ok || len(l.Items) != 2 || metas(l.Items[0]) != one ||
		!strings.Contains(value.Str(l.Items[1]), "polygraphy.Tensor") {
		t.Errorf("two iterations: %s", value.Str(f.Root))
	}
}

func TestPolygraphyRefused(t *testing.T) {
	a := polygraphyArray(t, "c.npy")
	results := func(lst string) string { return `{"lst": ` + lst + `, "polygraphy_class": "RunResults"}` }
	for text, want := range map[string]string{
		results(`[["r", [{"outputs": {"a": ` + a + `, "a": ` + a + `}}]]]`): `runner 0: iteration 0: polygraphy: array "a" appears twice`,
		results(`[["r"]]`):                                                                                     "runner 0 is not a name with its iterations",
		results(`[["r", [{"outputs": 3}]]]`):                                                                   "the arrays are not a JSON object",
		results(`{}`):                                                                                          "JSON",
		`{"lst": [], "polygraphy_class": "Other"}`:                                                             `"Other" is not RunResults`,
		`[{"a": {"array": "!!", "polygraphy_class": "ndarray"}}]`:                                              "base64",
		`[{"a": {"array": "aGVsbG8=", "polygraphy_class": "ndarray"}}]`:                                        "npy: not an array file",
		`[{"a": ` + a[:len(a)-40] + `"polygraphy_class"`:                                                       "JSON",
		`[{"a": {"array": 3, "polygraphy_class": "ndarray"}}]`:                                                 "JSON",
		`[{"a": ` + strings.Replace(a, `AAAA`, `AAA`, 1) + `}]`:                                                "",
		`[{"a": {"array": "k05VTVBZ", "polygraphy_class": "ndarray"}}]`:                                        "npy",
		`[3, {"polygraphy_class": "x"}]`:                                                                       "iteration 0: polygraphy: the arrays are not",
		`{"a": "polygraphy_class", "polygraphy_class" : {"deeper": [}}`:                                        "JSON",
		`[{"a": {"values": {"values": 1, "polygraphy_class": "LazyArray"}, "polygraphy_class": "LazyArray"}}]`: "",
	} {
		f, err := Open(polygraphyFile(t, text), Options{})
		if err == nil {
			f.Close()
			if want != "" {
				t.Errorf("%s: read as %s, want %q", text, value.Str(f.Root), want)
			}
			continue
		}
		fuzzcheck.Sentence(t, err)
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "out.json") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzPolygraphy(f *testing.F) {
	for _, name := range []string{"outputs.json", "inputs.json"} {
		b, err := os.ReadFile(filepath.Join("testdata/polygraphy", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		path := polygraphyFile(t, string(b))
		fuzzcheck.Bounded(t, len(b), 1<<10, func() {
			file, err := Open(path, Options{Read: Plain})
			fuzzcheck.Sentence(t, err)
			if err == nil {
				for _, x := range value.Tensors(file.Root) {
					_, err := x.Storage().Load()
					fuzzcheck.Sentence(t, err)
				}
				file.Close()
			}
		})
	})
}
