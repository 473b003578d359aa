package devicecheck_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/replay/devicecheck"
	"github.com/optool/optool/tensor"
)

// A narrowDevice takes only some dtypes, and no alpha if it refuses it. It computes as if alpha were 1.
type narrowDevice struct {
	takes        []tensor.DType
	refusesAlpha bool
}

func (d narrowDevice) Run(c *replay.DeviceCall) *replay.DeviceRun {
	run := &replay.DeviceRun{Functions: []string{"diopiAdd"}}
	alpha, _ := c.Call.Argument("alpha")
	if d.refusesAlpha && !alpha.IsDefault() || slices.ContainsFunc(c.Call.Tensors(), func(a opdef.Arg) bool {
		return !a.Tensor.Wrapped && !slices.Contains(d.takes, a.Tensor.DType)
	}) {
		run.Forward = replay.DeviceStatus{Verdict: verdict.Unsupported, Reason: "diopiAdd returned 1000", Refused: true}
		return run
	}
	if c.GradOutputs != nil {
		run.Backward = replay.DeviceStatus{Verdict: verdict.Skipped, Reason: "DIOPI has no backward function for it"}
	}
	one := c.Call.MapScalars(func(opdef.Scalar) opdef.Scalar { return opdef.Int(1) })
	f, err := one.Forward()
	if err != nil {
		panic(err)
	}
	for i, o := range f.Outs {
		run.Outputs = append(run.Outputs, opdef.Cast(o, c.Forward.Outs[i].DType).Rounded())
	}
	return run
}

// TestOtherDTypes: a case that a device refuses for its dtype is judged in one that it takes, so that each argument is.
func TestOtherDTypes(t *testing.T) {
	var add *opdef.Entry
	for _, e := range ops.Default().Lookup("torch.add") {
		if len(e.Schema.Params) == 3 && e.Schema.Params[1].Type.Base == "Tensor" {
			add = e
		}
	}
	all := func(string) bool { return true }
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Int32} {
		d := narrowDevice{[]tensor.DType{dt}, false}
		out := devicecheck.Suite(d, ops.Default()).Judge(add)
		if len(out.Findings) == 0 {
			t.Errorf("%s alone: that alpha is ignored is not found in %d of %d cases", dt, out.Judged, out.Cases)
			continue
		}
		if dt.IsFloat() && out.Judged < out.Cases/2 {
			t.Errorf("%s alone: %d of %d cases are judged", dt, out.Judged, out.Cases)
		}
		f := out.Findings[0]
		if f.Functions != "diopiAdd" || !strings.Contains(f.Case, "alpha=") || strings.Contains(f.Case, "float64") {
			t.Errorf("%s alone: finding of %q: %v", dt, f.Functions, f)
		}
		found := devicecheck.Causes(d, ops.Default(), f.Call, &causes.Allowance{})
		// With alpha=-1, "other is negated" is as true.
		if len(found) == 0 || dt.IsFloat() && !strings.Contains(found[0].Text, "alpha is 1, not ") {
			t.Errorf("%s alone: causes %v of %v", dt, found, f)
		}
		functions := devicecheck.Functions{}
		functions.Add(out, all)
		of := functions.Of("diopiAdd")
		if slices.Contains(of.Refused, dt.String()) || !slices.Contains(of.Refused, "float64") || len(of.Never) > 0 ||
			of.Judged != out.Judged || of.Wrong == 0 || of.Wrong == of.Judged {
			t.Errorf("%s alone: %+v", dt, of)
		}
	}
	out := devicecheck.Suite(narrowDevice{[]tensor.DType{tensor.Float32}, true}, ops.Default()).Judge(add)
	functions := devicecheck.Functions{}
	functions.Add(out, all)
	if of := functions.Of("diopiAdd"); len(out.Findings) > 0 || !slices.Equal(of.Never, []string{"alpha"}) {
		t.Errorf("alpha is refused: findings %v, never judged %q", out.Findings, of.Never)
	}
	if of := functions.Of("diopiMul"); of.Cases != 0 {
		t.Errorf("a function that no case called: %+v", of)
	}
	// One case alone.
	suite := devicecheck.Suite(narrowDevice{[]tensor.DType{tensor.Float32}, false}, ops.Default())
	suite.Case = func(i int) bool { return i == 1 }
	if out := suite.Judge(add); out.Judged != 1 || len(out.Findings) != 1 || !strings.HasPrefix(out.Findings[0].Case, "1: ") {
		t.Errorf("one case: %d judged, findings %v", out.Judged, out.Findings)
	}
}
