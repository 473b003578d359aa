package cli_test

import (
	"archive/zip"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestSameCause: the cause of a wrong result, and the distance of its worst element, are the same on every screen and
// in every report, also where the command gets the directory of one call.
func TestSameCause(t *testing.T) {
	wave := func(phase float64) *tensor.Tensor {
		v := make([]float64, 20)
		for i := range v {
			v[i] = 2 * math.Sin(phase+float64(i*i))
		}
		return tensor.New(tensor.Float32, []int{4, 5}, v).Rounded()
	}
	x, y := wave(1), wave(2)
	each := func(f func(x, y float64) float64) *tensor.Tensor {
		v := make([]float64, x.Numel())
		for i := range v {
			v[i] = f(tensor.At[float64](x, i), tensor.At[float64](y, i))
		}
		return tensor.New(tensor.Float32, x.Shape, v).Rounded()
	}
	sum := each(func(x, y float64) float64 { return x + y })
	dir := t.TempDir()
	call := func(id, op string, output value.Value, args ...value.Value) string {
		at := []string{dir, "op_tools_results", "op_capture_results", op, "7", id, "2026-11-22-10-00-0" + id}
		for name, vs := range map[string][]value.Value{"input": args, "output": {output}} {
			save(t, dict("name", op, "args", value.NewTuple(vs...), "kwargs", dict(), "identifier", id+"/x/"+name),
				append(at, name+".pth")...)
		}
		return filepath.Join(at...)
	}
	call("1", "torch.add", sum, x, y)
	far := regexp.MustCompile(`at (\[[\d, ]+\]) got (\S+) want (\S+) \((\S+ ulp)\)`)
	for _, tc := range []struct{ id, op, cause, at string }{
		{"2", "torch.mul", "output[0] of the earlier torch.add, id 1, is returned",
			call("2", "torch.mul", sum, x, y)},
		{"3", "torch.sub", "self and other are swapped",
			call("3", "torch.sub", each(func(x, y float64) float64 { return y - x }), x, y)},
		{"4", "torch.tanh", "it is computed as hardtanh",
			call("4", "torch.tanh", each(func(x, _ float64) float64 { return math.Max(-1, math.Min(1, x)) }), x)},
	} {
		out := t.TempDir()
		file := func(name string) string { return filepath.Join(out, name) }
		run := func(args ...string) string {
			var text strings.Builder
			if code := cli.Main(args, cli.Streams{In: strings.NewReader(""), Out: &text, Err: &text}); code !=
				cli.ExitDiffers {
				t.Errorf("%q: exit code %d: %s", args, code, &text)
			}
			return strings.Join(strings.Fields(text.String()), " ")
		}
		texts := map[string]string{
			"replay": run("replay", "--acc_check", "--out", out, "--op", tc.op, "--json", file("j"), "--csv", file("c"),
				"--xlsx", file("x"), "--html", file("h"), "--junit", file("u"), "--markdown", file("m"), dir),
			"again":   run("replay", "--tables", "--out", out, tc.at),
			"explain": run("explain", "--op", tc.op, dir),
			"bundle":  run("bundle", "--op", tc.op, "-o", file("z"), dir),
			"step":    run("step", "--json", file("sj"), "--html", file("sh"), dir),
		}
		for _, name := range []string{"j", "c", "x", "h", "u", "m", "z", "sj", "sh"} {
			texts[name] = content(t, file(name))
		}
		delete(texts, "bundle") // which names the file alone
		view := cli.Served(t, tc.at)
		for _, query := range cli.ServedResults(view("?verdict=fail")) {
			texts["view"] += html.UnescapeString(view(query))
		}
		worst := far.FindStringSubmatch(texts["replay"])
		if worst == nil {
			t.Fatalf("%s: no worst element in %.2000s", tc.op, texts["replay"])
		}
		first := regexp.MustCompile(`worst elements (\[[\d, ]+\]) got \S+ want \S+ (\S+ ulp)`).FindStringSubmatch(
			texts["explain"])
		if first == nil || first[1] != worst[1] || first[2] != worst[4] {
			t.Errorf("%s: explain begins with %q, want %q", tc.op, first, worst)
		}
		for name, text := range texts {
			if !strings.Contains(text, "("+worst[4]+")") {
				t.Errorf("%s, %s: no %q in %.2000s", tc.op, name, worst[4], text)
			}
			if !strings.Contains(text, tc.cause) {
				t.Errorf("%s, %s: no %q in %.2000s", tc.op, name, tc.cause, text)
			}
		}
	}
}

// content is the text of a file, of all files of an archive.
func content(t *testing.T, path string) string {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return html.UnescapeString(strings.NewReplacer(`\[`, "[", `\]`, "]").Replace(string(b)))
	}
	defer archive.Close()
	var text strings.Builder
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&text, r); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	return strings.Join(strings.Fields(html.UnescapeString(text.String())), " ")
}
