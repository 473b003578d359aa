package cli_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestElsewhere: a result that is another call's, or an argument, is said to be that;
// damage that is nothing of the kind is not.
func TestElsewhere(t *testing.T) {
	x, y := floats(1, 4, 5), floats(2, 4, 5)
	sum := func(a, b *tensor.Tensor, more float64) *tensor.Tensor {
		v := make([]float64, a.Numel())
		for i := range v {
			v[i] = tensor.At[float64](a, i) + tensor.At[float64](b, i) + more
		}
		return tensor.New(tensor.Float32, a.Shape, v).Rounded()
	}
	for _, tc := range []struct {
		name string
		gave *tensor.Tensor // of the second call, torch.add(x, x)
		want string
	}{
		{"an earlier result", sum(x, y, 0),
			"cause: output[0] reproduced exactly if output[0] of the earlier torch.add, id 1, is returned"},
		{"an argument", x, "cause: output[0] reproduced exactly if self is returned as it is"},
		{"an earlier result is added", sum(sum(x, x, 0), sum(x, y, 0), 0),
			"if output[0] of the earlier torch.add, id 1, is added"},
		{"damage", sum(x, x, 3), ""},
		{"one number", tensor.Full(tensor.Float32, []int{4, 5}, 7.0).Rounded(), ""},
	} {
		dir := t.TempDir()
		call := func(id string, output value.Value, args ...value.Value) {
			for name, vs := range map[string][]value.Value{"input": args, "output": {output}} {
				rec := dict("name", "torch.add", "args", value.NewTuple(vs...), "kwargs", dict(),
					"identifier", id+"/x/"+name)
				save(t, rec, dir, "torch.add", "7", id, "2026-11-22-10-00-0"+id, name+".pth")
			}
		}
		call("1", sum(x, y, 0), x, y)
		call("2", tc.gave, x, x)
		var out strings.Builder
		code := cli.Main([]string{"explain", "--all", dir}, cli.Streams{In: strings.NewReader(""), Out: &out,
			Err: &out})
		text := out.String()
		if code != cli.ExitDiffers || !strings.Contains(text, "torch.add, id 2") || strings.Contains(text, "id 1, process") {
			t.Errorf("%s: exit code %d: %s", tc.name, code, text)
		}
		if !strings.Contains(text, tc.want) || tc.want == "" && strings.Contains(text, "the earlier") {
			t.Errorf("%s: want %q in %s", tc.name, tc.want, text)
		}
	}
}

// TestMan: a page for each command, the same bytes again.
func TestMan(t *testing.T) {
	var pages [2]string
	for i := range pages {
		dir := t.TempDir()
		var out strings.Builder
		streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}
		if code := cli.Main([]string{"man", dir}, streams); code != 0 {
			t.Fatalf("exit code %d: %s", code, out.String())
		}
		b, err := os.ReadFile(filepath.Join(dir, "optool-reduce.1"))
		if err != nil {
			t.Fatal(err)
		}
		pages[i] = string(b)
	}
	if !strings.Contains(pages[0], `.TH "OPTOOL-REDUCE" "1"`) || pages[0] != pages[1] {
		t.Errorf("the page of reduce: %s", pages[0])
	}
}

// TestOldHabits: what people type who know op_tools and diopi_test, or mistype.
func TestOldHabits(t *testing.T) {
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"replya x", cli.ExitUsage, `unknown command "replya"; did you mean "replay"?`},
		{"help replya", cli.ExitUsage, `unknown command "replya"; did you mean "replay"?`},
		{"help replay", cli.ExitOK, "replay computes each recorded call"},
		{"help", cli.ExitOK, "Find what is wrong:"},
		{"replay --acc_chek x", cli.ExitUsage, `unknown flag: --acc_chek; did you mean "--acc_check"?`},
		{"replay --mode gen_data x", cli.ExitUsage, "unknown flag: --mode, which is one of conformance\n"},
		{"replay --zzzzzzzzzzzzzzz x", cli.ExitUsage, "unknown flag: --zzzzzzzzzzzzzzz\n"},
		{"replay --sync_time_measure x", cli.ExitUsage, "optool time --sync_time_measure does"},
		{"conformance --pytest_args=-k", cli.ExitUsage, "there is no pytest"},
		{"conformance --mode run_tests", cli.ExitUsage, `did you mean "run_test"?`},
		{"--version", cli.ExitOK, "features: "},
		{"version", cli.ExitOK, "devices"},
		{"__complete conformance --mode g", cli.ExitOK, "gen_data\ngen_case\n"},
		{"__complete ls --op torch.add,torch.nn.functional.laye", cli.ExitOK, "torch.add,torch.nn.functional.layer_norm\n"},
		{"__complete ls --dtype bf", cli.ExitOK, ":"},
		{"__complete ls --dtype bfl", cli.ExitOK, "bfloat16\n"},
		{"ls --op *softmax --op torch.gel* --op *gelu ../../fixtures/captures/cause", cli.ExitOK, "gelu"},
	} {
		var out strings.Builder
		code := cli.Main(strings.Fields(tc.args), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		if code != tc.code || !strings.Contains(out.String(), tc.want) {
			t.Errorf("optool %s: exit code %d, want %d; want %q in %s", tc.args, code, tc.code, tc.want, out.String())
		}
	}
	t.Setenv("OP_DISPATCH_WATCH_LIST", ".*")
	var out strings.Builder
	cli.Main([]string{"ls", "../../fixtures/captures/cause"}, cli.Streams{In: strings.NewReader(""), Out: &out,
		Err: &out})
	if !strings.Contains(out.String(), "optool: OP_DISPATCH_WATCH_LIST is about a program that runs") {
		t.Errorf("OP_DISPATCH_WATCH_LIST is not answered: %s", out.String())
	}
}

// TestListedNamesAreWhole: a program finds an operator in the listing by its name, whatever COLUMNS is.
func TestListedNamesAreWhole(t *testing.T) {
	t.Setenv("COLUMNS", "40")
	var out strings.Builder
	cli.Main([]string{"ls", "../../fixtures/tutorial"}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	if !strings.Contains(out.String(), "torch.nn.functional.layer_norm ") {
		t.Errorf("no whole name in\n%s", out.String())
	}
}

// TestExplainTogether: where no call is wrong by itself, explain tells the warning about all calls that replay tells.
func TestExplainTogether(t *testing.T) {
	dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	numbers := func() *tensor.Tensor {
		v := make([]float64, 256)
		for k := range v {
			v[k] = random.NormFloat64()
		}
		return tensor.New(tensor.Float32, []int{8, 32}, v).Rounded()
	}
	for i := range 10 {
		x, y := numbers(), numbers()
		v := make([]float64, x.Numel())
		for k := range v {
			v[k] = tensor.At[float64](x, k) * tensor.At[float64](y, k) * (1 + 0x1p-25)
		}
		out := tensor.New(tensor.Float32, x.Shape, v).Rounded()
		id := strconv.Itoa(i)
		for name, vs := range map[string][]value.Value{"input": {x, y}, "output": {out}} {
			rec := dict("name", "torch.mul", "args", value.NewTuple(vs...), "kwargs", dict(),
				"identifier", id+"/x/"+name)
			save(t, rec, dir, "torch.mul", "7", id, "2026-11-22-10-00-0"+id, name+".pth")
		}
	}
	run := func(command ...string) string {
		var out strings.Builder
		cli.Main(append(command, dir), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		return out.String()
	}
	const told = "pass one by one, but all together they are"
	if text := run("replay", "--out", t.TempDir()); !strings.Contains(text, told) {
		t.Fatalf("replay: %s", text)
	}
	if text := run("explain"); !strings.Contains(text, told) ||
		!strings.Contains(text, "none of 10 captures failed by itself") {
		t.Errorf("explain: %s", text)
	}
}
