package reports

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/compare/verdict"
)

func render(t *testing.T, write func(*strings.Builder) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func diff(t *testing.T, what, want, got string) {
	t.Helper()
	if d := cmp.Diff(strings.TrimPrefix(want, "\n"), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// The expected tables here were printed by op_tools.

func TestWriteArgs(t *testing.T) {
	info := func(shape, stride []int, numel int, ptr string) *TensorInfo {
		return &TensorInfo{"npu:0", "float32", numel, shape, stride, false, "torch.strided", ptr}
	}
	got := render(t, func(b *strings.Builder) error {
		return WriteArgs(b, 0, []ArgRow{
			{Name: "torch.Tensor.reshape inputs[0]", Tensor: info([]int{24}, []int{1}, 24, "271375168")},
			{Name: "torch.Tensor.reshape inputs[1]", Value: "4"},
			{Name: "torch.Tensor.reshape inputs[2]", Value: "6"},
			{Name: "torch.Tensor.reshape outputs", Tensor: info([]int{4, 6}, []int{6, 1}, 24, "271375168")},
		})
	})
	diff(t, "tensor first", `
+--------------------------------+--------+---------+-------+--------+--------+---------------+---------------+-----------+-------+
|              name              | device |  dtype  | numel | shape  | stride | requires_grad |     layout    |  data_ptr | value |
+--------------------------------+--------+---------+-------+--------+--------+---------------+---------------+-----------+-------+
| torch.Tensor.reshape inputs[0] | npu:0  | float32 |   24  | (24,)  |  (1,)  |     False     | torch.strided | 271375168 |       |
| torch.Tensor.reshape inputs[1] |        |         |       |        |        |               |               |           |   4   |
| torch.Tensor.reshape inputs[2] |        |         |       |        |        |               |               |           |   6   |
|  torch.Tensor.reshape outputs  | npu:0  | float32 |   24  | (4, 6) | (6, 1) |     False     | torch.strided | 271375168 |       |
+--------------------------------+--------+---------+-------+--------+--------+---------------+---------------+-----------+-------+
`, got)

	got = render(t, func(b *strings.Builder) error {
		return WriteArgs(b, 0, []ArgRow{
			{Name: "torch.arange inputs", Value: "24"},
			{Name: "torch.arange inputs dtype", Value: "torch.float32"},
			{Name: "torch.arange inputs device", Value: "cuda:0"},
			{Name: "torch.arange outputs", Tensor: info([]int{24}, []int{1}, 24, "271375168")},
		})
	})
	diff(t, "value first", `
+----------------------------+---------------+--------+---------+-------+-------+--------+---------------+---------------+-----------+
|            name            |     value     | device |  dtype  | numel | shape | stride | requires_grad |     layout    |  data_ptr |
+----------------------------+---------------+--------+---------+-------+-------+--------+---------------+---------------+-----------+
|    torch.arange inputs     |       24      |        |         |       |       |        |               |               |           |
| torch.arange inputs dtype  | torch.float32 |        |         |       |       |        |               |               |           |
| torch.arange inputs device |     cuda:0    |        |         |       |       |        |               |               |           |
|    torch.arange outputs    |               | npu:0  | float32 |   24  | (24,) |  (1,)  |     False     | torch.strided | 271375168 |
+----------------------------+---------------+--------+---------+-------+-------+--------+---------------+---------------+-----------+
`, got)
}

func TestWriteCompare(t *testing.T) {
	got := render(t, func(b *strings.Builder) error {
		return WriteCompare(b, 0, []CompareRow{
			{Name: "torch.Tensor.add output", Allclose: true, Cosine: 0.9999999403953552, ATol: 1e-3, RTol: 1e-3},
		})
	})
	diff(t, "table", `
+--------------------------------+----------+-------------------+--------------+-------------------+-------------+-------------+------------+
|              name              | allclose | cosine_similarity | max_abs_diff | max_relative_diff |     atol    |     rtol    | error_info |
+--------------------------------+----------+-------------------+--------------+-------------------+-------------+-------------+------------+
| torch.Tensor.add output        |   True   |    0.999999940    | 0.000000000  |    0.000000000    | 0.001000000 | 0.001000000 |            |
+--------------------------------+----------+-------------------+--------------+-------------------+-------------+-------------+------------+
`, got)
}

func TestNarrowTable(t *testing.T) {
	rows := []CompareRow{
		{Name: "torch.Tensor.add input[0]", Allclose: true, Cosine: 1, ATol: 1e-3, RTol: 1e-3},
		{Name: "torch.Tensor.add output", Cosine: 0.5, MaxAbs: 2, MaxRelative: 3, ATol: 1e-3, RTol: 1e-3,
			Verdict: verdict.Fail},
	}
	got := render(t, func(b *strings.Builder) error { return WriteCompare(b, 80, rows) })
	diff(t, "80 columns", `
+----------+----------+--------------+-------------------+---------+
|   name   | allclose | max_abs_diff | max_relative_diff | verdict |
+----------+----------+--------------+-------------------+---------+
| input[0] |   True   | 0.000000000  |    0.000000000    |         |
|  output  |  False   | 2.000000000  |    3.000000000    |   fail  |
+----------+----------+--------------+-------------------+---------+
(no room for rtol, atol, cosine_similarity)
`, got)
	got = render(t, func(b *strings.Builder) error { return WriteCompare(b, 125, rows) })
	diff(t, "125 columns", `
+----------+----------+-------------------+--------------+-------------------+-------------+-------------+---------+
|   name   | allclose | cosine_similarity | max_abs_diff | max_relative_diff |     atol    |     rtol    | verdict |
+----------+----------+-------------------+--------------+-------------------+-------------+-------------+---------+
| input[0] |   True   |    1.000000000    | 0.000000000  |    0.000000000    | 0.001000000 | 0.001000000 |         |
|  output  |  False   |    0.500000000    | 2.000000000  |    3.000000000    | 0.001000000 | 0.001000000 |   fail  |
+----------+----------+-------------------+--------------+-------------------+-------------+-------------+---------+
`, got)
}

func TestCompareCSV(t *testing.T) {
	got := render(t, func(b *strings.Builder) error {
		c := NewCompareCSV(b, 2)
		for _, r := range []CompareRow{
			{ForwardID: "1", Name: "torch.Tensor.__getitem__ input[0]", Allclose: true, Cosine: 1, ATol: 1e-5,
				RTol: 1e-5, Verdict: verdict.Pass},
			{ForwardID: "1", Name: "torch.Tensor.__getitem__ input[3]", Allclose: true, Cosine: 1,
				ErrorInfo: " value: slice(None, None, None) slice(None, None, None)", Verdict: verdict.Pass},
			{ForwardID: "2", Name: "torch.exp output", Cosine: math.NaN(), MaxAbs: math.NaN(), MaxRelative: math.Inf(1),
				ATol: 1e-5, RTol: 1e-5, ErrorInfo: ` a "b"`, Verdict: verdict.Fail, Reason: "r"},
		} {
			if err := c.Compare(r); err != nil {
				return err
			}
		}
		return nil
	})
	const header = "forward_id,name,allclose,cosine_similarity,max_abs_diff,max_relative_diff,atol,rtol,error_info,verdict,reason\r\n"
	diff(t, "CSV", header+
		"1,torch.Tensor.__getitem__ "+
		"input[0],True,1.000000000,0.000000000,0.000000000,0.000010000,0.000010000,,pass,\r\n"+
		"1,torch.Tensor.__getitem__ input[3],True,1.000000000,0.000000000,0.000000000,0.000000000,0.000000000,\" "+
		"value: slice(None, None, None) slice(None, None, None)\",pass,\r\n"+
		header+
		"2,torch.exp output              ,False,nan,       nan,       inf,0.000010000,0.000010000,\" a "+
		"\"\"b\"\"\",fail,r\r\n", got)
}

func TestTimeCSV(t *testing.T) {
	got := render(t, func(b *strings.Builder) error {
		c := NewTimeCSV(b, 0)
		return c.Time(TimeRow{Name: "torch.add", ForwardID: 3, Forward: 899791 * time.Nanosecond, Backward: -1,
			Input: "{'args': ()}"})
	})
	diff(t, "CSV", "name,forward_id,forward_elasped,backward_elasped,unit,input,output,grad_inputs,grad_outputs\r\n"+
		"torch.add,3,0.89979100,-,ms,{'args': ()},,,\r\n", got)
}

func TestJSONLines(t *testing.T) {
	yes, id, n := true, 7, 4
	got := render(t, func(b *strings.Builder) error {
		return NewJSONLines(b).Result(&Result{
			Capture: "a<b>", Op: "torch.exp", ForwardID: &id, Phase: "forward", Target: "output[0]",
			Verdict:  verdict.Warn,
			Allclose: &yes,
			Cosine:   Num(math.NaN()), MaxAbs: Num(math.Inf(1)), MaxRel: Num(math.Inf(-1)), MaxULP: Num(1.5), Numel: &n,
			Worst: []int{0, 1}, Actual: json.RawMessage(`"nan"`), Shape: []int{},
		})
	})
	diff(t, "result",
		`{"kind":"result","capture":"a<b>","op":"torch.exp","forward_id":7,"phase":"forward","target":"output[0]","verdict":"warn",`+
			`"reason":"","allclose":true,"cosine_similarity":"nan","max_abs_diff":"inf","max_relative_diff":"-inf","max_ulp":1.5,"mismatched":null,`+
			`"numel":4,"atol":null,"rtol":null,"rule":null,"worst_index":[0,1],"actual":"nan","expected":null,"dtype":null,"shape":[],`+
			`"source":null,"reference":null,"repro":null,"order":null,"pid":null,"rank":null,`+
			`"coverage":null}`+"\n", got)
}

func TestSummary(t *testing.T) {
	s := NewSummary()
	three := 3
	for _, r := range []*Result{
		{Capture: "a", Op: "torch.exp", Verdict: verdict.Pass},
		{Capture: "a", Op: "torch.exp", Verdict: verdict.Fail, Target: "grad[0]", Reason: "off", Mismatch: &three},
		{Capture: "a", Op: "torch.exp", Verdict: verdict.Pass},
		{Capture: "b", Op: "torch.exp", Verdict: verdict.Pass},
		{Capture: "c", Op: "torch.abs", Verdict: verdict.Skipped, Reason: "random"},
		{Capture: "c", Op: "torch.abs", Phase: "backward", Verdict: verdict.Skipped, Reason: "gradients belong to b"},
		{Capture: "c", Op: "torch.abs", Verdict: verdict.Pass},
	} {
		s.Add(r)
	}
	got := render(t, func(b *strings.Builder) error { return s.Write(b, Style{Tables: true}) })
	diff(t, "summary", `
op         pass  fail  worst
torch.exp     1     1  grad[0] off
torch.abs     1

2 values not judged: gradients belong to b (1 of torch.abs), random (1 of torch.abs)
3 captures: 2 pass, 1 fail
`, got)
	if !s.Differs() || s.Refused() || s.Compared() != 5 {
		t.Errorf("Differs %t, Refused %t, Compared %d; want true, false, 5", s.Differs(), s.Refused(), s.Compared())
	}
	if got := s.Captures; got[verdict.Pass] != 2 || got[verdict.Fail] != 1 {
		t.Errorf("Captures = %v, want 2 pass and 1 fail", got)
	}
}

// TestSummaryOdd: where results are warnings at most, one that is not as the others of its
// operator is named; gradients are not, nor is any where something is wrong.
func TestSummaryOdd(t *testing.T) {
	id, repro := 68, "optool replay x"
	add := func(s *Summary, op, phase string, pass int, v verdict.Verdict) {
		for i := range pass {
			s.Add(&Result{Capture: fmt.Sprint(op, i), Op: op, Phase: "forward", Verdict: verdict.Pass})
		}
		s.Add(&Result{Capture: op, Op: op, Phase: phase, Target: "output[0]", ForwardID: &id, Verdict: v,
			Repro: &repro})
	}
	text := func(s *Summary) string {
		return render(t, func(b *strings.Builder) error { return s.Write(b, Style{}) })
	}
	s := NewSummary()
	add(s, "torch.mul", "forward", 3, verdict.Warn)
	add(s, "torch.add", "backward", 20, verdict.Warn)
	if got := text(s); strings.Contains(got, "to look at") {
		t.Errorf("a call is named:\n%s", got)
	}
	add(s, "torch.exp", "forward", 8, verdict.Warn)
	add(s, "torch.bmm", "forward", 9, verdict.Warn)
	want := "to look at first: torch.bmm, id 68: output[0] is a warning, 9 other calls of the operator pass\n" +
		"  again    optool replay x\n"
	if got := text(s); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant %s", got, want)
	}
	add(s, "torch.abs", "forward", 0, verdict.Fail)
	if got := text(s); strings.Contains(got, "to look at") {
		t.Errorf("a warning is named beside what is wrong:\n%s", got)
	}
}

func TestListing(t *testing.T) {
	got := render(t, func(b *strings.Builder) error {
		l := NewListing(b, 30, "id", "op", "shapes")
		l.Right(0)
		if err := l.Add("1", "torch.nn.functional.linear", "[2]"); err != nil {
			return err
		}
		if err := l.Add("100", "torch.add", "evil\x1b[2J"); err != nil {
			return err
		}
		return l.Flush()
	})
	diff(t, "listing", `
 id  op            shapes
  1  torch.…inear  [2]
100  torch.add     evil\x1b[2J
`, got)
	for _, line := range strings.Split(got, "\n") {
		if n := len([]rune(line)); n > 30 {
			t.Errorf("line of %d columns, want at most 30: %q", n, line)
		}
	}

	// Rows beyond the first ones are printed as they come.
	var b strings.Builder
	l := NewListing(&b, 0, "n")
	for i := range 1000 {
		if err := l.Add(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(b.String(), "\n"); n != 1001 {
		t.Errorf("%d lines before Flush, want 1001", n)
	}
}

func TestBytes(t *testing.T) {
	for _, tc := range []struct {
		n    int64
		want string
	}{{0, "0 B"}, {1023, "1023 B"}, {1536, "1.5 KiB"}, {3 << 30, "3.0 GiB"}, {1 << 60, "1048576.0 TiB"}} {
		if got := Bytes(tc.n); got != tc.want {
			t.Errorf("Bytes(%d) = %s, want %s", tc.n, got, tc.want)
		}
	}
}

// TestSummaryWitness: results of a device are counted against the recorded ones,
// those of the stress test are not.
func TestSummaryWitness(t *testing.T) {
	s := NewSummary()
	for _, r := range []*Result{
		{Capture: "a", Op: "torch.add", Verdict: verdict.Pass, Witness: "same"},
		{Capture: "a", Op: "torch.add", Verdict: verdict.Pass, Witness: "same", Layout: "transposed"},
		{Capture: "b", Op: "torch.add", Verdict: verdict.Fail, Witness: "worse"},
		{Capture: "c", Op: "torch.add", Verdict: verdict.Pass},
	} {
		s.Add(r)
	}
	var b strings.Builder
	if err := s.Write(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	if want := "the device's results against the recorded ones: 0 better, 1 same, 1 worse\n"; !strings.Contains(
		b.String(), want) {
		t.Errorf("%s lacks %q", b.String(), want)
	}
	b.Reset()
	if err := NewJSONLines(&b).Summary(s); err != nil ||
		!strings.Contains(b.String(), `"witness":{"same":1,"worse":1}`) {
		t.Errorf("%s, %v", b.String(), err)
	}
}

// TestMixedOp: an operator of which some calls pass and others prove nothing is no plain pass.
func TestMixedOp(t *testing.T) {
	s := NewSummary()
	for i, v := range []verdict.Verdict{verdict.Pass, verdict.Mistrusted, verdict.Pass} {
		s.Add(&Result{Op: []string{"mul", "mul", "add"}[i], Capture: fmt.Sprint(i), Verdict: v})
	}
	text := render(t, func(b *strings.Builder) error { return s.Write(b, Style{Width: 80}) })
	for _, want := range []string{"mul     1           1", "1 capture of 1 other op passed"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
