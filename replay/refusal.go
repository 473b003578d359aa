package replay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// mostSimilar is how many names are proposed for an unknown operator.
const mostSimilar = 5

// addRefusal adds the result of a call that the reference does not run.
func (r *comparison) addRefusal(err error) {
	var refused *opdef.RefusedError
	var unbound *opdef.UnboundError
	switch {
	case errors.Is(err, opdef.ErrUnknownOp) && collective.Name(r.Op) != "":
		r.compareExchange()
	case errors.Is(err, opdef.ErrUnknownOp) && r.withoutValues():
		r.addCall(verdict.Skipped, verdict.NothingReturned)
	case errors.Is(err, opdef.ErrUnknownOp):
		reason := "unknown op " + r.Op
		if near := r.opt.Registry.Similar(r.Op); len(near) > 0 {
			reason += "; known: " + strings.Join(near[:min(len(near), mostSimilar)], ", ")
			if more := len(near) - mostSimilar; more > 0 {
				reason += fmt.Sprintf(" and %d more", more)
			}
		}
		r.addCall(verdict.Unsupported, reason)
	case errors.As(err, &refused):
		if what := opaque(r.Record); what != "" {
			r.addCall(verdict.Unsupported, "argument cannot be computed with: "+what)
			return
		}
		if r.Record.Unknown.Has(capture.Input) {
			r.addCall(verdict.Unsupported, "an argument that was recorded as None may be another value: "+err.Error())
			return
		}
		switch {
		case r.raised() != "": // so does the reference
			r.addCall(verdict.Skipped, r.raised())
		case errors.As(err, &unbound) && !r.torchRefuses():
			r.addCall(verdict.Unsupported, "no known form of the operator takes these arguments: "+err.Error()+
				"; nearest: "+unbound.Nearest)
		case refused.Limit:
			r.addCall(verdict.Unsupported, err.Error())
		default:
			r.addCall(verdict.Error, err.Error())
		}
	default:
		r.addCall(verdict.Error, err.Error())
	}
}

// raised says what error the call raised, "" if it returned or that was not recorded.
func (r *comparison) raised() string {
	if r.entry == nil || r.entry.Raised == "" {
		return ""
	}
	return verdict.Raised + r.entry.Raised
}

// noResult says that the result was not recorded; op_tools would have written it to a file.
func (r *comparison) noResult() string {
	if r.entry != nil && r.entry.ByOther() {
		return verdict.NoResult
	}
	return verdict.NoOutput
}

// torchRefuses reports whether the function itself refuses arguments that fit no overload: the forms
// of torch's Python API are known, and a call that returned was not refused.
func (r *comparison) torchRefuses() bool {
	return opdef.OfTorch(r.Op) && r.Record.Err(capture.Output) != nil
}

// withoutValues reports whether the call took no tensor and returned None, as what sets a mode or
// asserts something does.
func (r *comparison) withoutValues() bool {
	if r.Record.Err(capture.Output) != nil || r.Record.Unknown.Has(capture.Input) {
		return false
	}
	for _, v := range flatten(r.Record.Output) {
		if v != nil {
			return false
		}
	}
	return len(r.Record.Inputs()) == 0 && opaque(r.Record) == ""
}

// opaque names the class and the text of the first argument that is not understood.
func opaque(rec *capture.Call) (what string) {
	value.Walk(value.NewTuple(value.NewTuple(rec.Args...), rec.Kwargs), func(v value.Value) {
		if what != "" {
			return
		}
		switch v := v.(type) {
		case *value.Opaque:
			what = v.Global
			if v.Reason != "" {
				what += ": " + v.Reason
			}
		case *tensor.Tensor:
			if !v.DType.Computable() {
				what = "dtype " + v.DType.String()
			}
		}
	})
	return what
}
