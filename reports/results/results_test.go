package results_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/tensor"
)

func TestOfReplay(t *testing.T) {
	e := &capture.Entry{Rel: "torch.add/1/7", Step: -1, Order: -1, Within: -1, WithinBackward: -1, Module: "a.b",
		Location: "x.py:3"}
	e.ID = 7
	numbers := compare.OpTools{AllClose: true, Cosine: 1, Atol: 1e-3, Rtol: 1e-5, Note: " note"}
	o := &replay.Outcome{
		Op: "torch.add",
		Results: []replay.Result{
			{Phase: replay.Forward, Target: "output[0]", Label: "output", Verdict: verdict.Fail, Reason: "off",
				Compared: &compare.Result{OpTools: numbers, Rule: "1 ulp", MaxULP: math.NaN(), Mismatched: 1, Numel: 2,
					WorstIndex: []int{1}, Actual: math.Inf(1), Expected: 0.5},
				DType: tensor.Float32, Shape: []int{2}, Reference: "float64"},
			{Phase: replay.Backward, Verdict: verdict.Skipped, Reason: verdict.NoGradient},
		},
		Inputs: []replay.InputRow{{Label: "input[0]", Numbers: numbers}},
		Casts:  []replay.CastRow{{Target: "input[0]", Action: "torch.float32 -> torch.float16", Config: "c"}},
	}
	f := results.OfReplay(e, o, "optool replay x", "saved/there")
	if len(f.Casts) != 1 || f.Casts[0][0] != "torch.add" || len(f.Rows) != 2 ||
		f.Rows[0].Name != "torch.add input[0]" ||
		f.Rows[0].ForwardID != "7" || f.Rows[0].Verdict != "" || f.Rows[1].Verdict != verdict.Fail {
		t.Errorf("casts %q, rows %+v", f.Casts, f.Rows)
	}
	for i, want := range []string{
		`{"capture":"torch.add/1/7","op":"torch.add","forward_id":7,"phase":"forward","target":"output[0]",` +
			`"verdict":"fail","reason":"off","allclose":true,"cosine_similarity":1,"max_abs_diff":0,` +
			`"max_relative_diff":0,"max_ulp":null,"mismatched":1,"numel":2,"atol":0.001,"rtol":1e-05,"rule":"1 ulp",` +
			`"worst_index":[1],"actual":"inf","expected":0.5,"dtype":"float32","shape":[2],"source":"captured",` +
			`"reference":"float64","repro":"optool replay x","order":7,"pid":0,` +
			`"rank":0,"coverage":1,"module":"a.b","location":"x.py:3","label":"output","error_info":" note",` +
			`"saved":"saved/there"}`,
		`{"capture":"torch.add/1/7","op":"torch.add","forward_id":7,"phase":"backward","target":"",` +
			`"verdict":"skipped","reason":"no gradient was recorded","allclose":null,"cosine_similarity":null,` +
			`"max_abs_diff":null,"max_relative_diff":null,"max_ulp":null,"mismatched":null,"numel":null,"atol":null,` +
			`"rtol":null,"rule":null,"worst_index":null,"actual":null,"expected":null,"dtype":null,"shape":null,` +
			`"source":null,"reference":null,"repro":"optool replay x","order":7,"pid":0,"rank":0,"coverage":null,` +
			`"module":"a.b","location":"x.py:3","saved":"saved/there"}`,
	} {
		if got, err := json.Marshal(f.Results[i]); err != nil || string(got) != want {
			t.Errorf("result %d: %v\n got %s\nwant %s", i, err, got, want)
		}
	}
}

func TestValue(t *testing.T) {
	for _, tc := range []struct {
		v    any
		want string
	}{
		{0.5, "0.5"}, {math.NaN(), `"nan"`}, {complex(1, -2), `"(1-2i)"`}, {int64(3), "3"}, {true, "true"},
	} {
		got := results.Value(tc.v)
		if string(got) != tc.want {
			t.Errorf("Value(%v) = %s, want %s", tc.v, got, tc.want)
		}
	}
	if got := results.Value(nil); got != nil {
		t.Errorf("Value(nil) = %s", got)
	}
}
