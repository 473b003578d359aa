package step

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestHooksOfGradients: what a hook of the program gives by recorded calls is no finding, of a tensor or of a node of
// autograd; what overwrites a third of a gradient in memory is, also where it was added up of several.
func TestHooksOfGradients(t *testing.T) {
	for _, tc := range []struct{ name, finding, gap string }{
		{"hook-overwrites", "changed grad_output[0] of torch.tanh/5", ""},
		{"hook-masks", "", ""},
		{"node-prehook", "", "torch.tanh/7"},
		{"node-posthook", "wrong grad[0] of torch.tanh/7", ""},
	} {
		tr := analyse(t, unpack(t, tc.name))
		got := ""
		if f := tr.First(); f != nil {
			got = string(f.Rule) + " " + f.Target + " of " + f.Call.String()
		}
		if got != tc.finding {
			t.Errorf("%s: first finding %q, want %q", tc.name, got, tc.finding)
		}
		if f := tr.First(); tc.name == "node-posthook" && f != nil && !strings.HasSuffix(f.Reason, "; torch.Tensor.mul/11 "+
			"gave it at /tmp/model/queue/small.py:20, for a kernel of the program's own or a hook of the node") {
			t.Errorf("%s: %s", tc.name, f.Reason)
		}
		gaps := tr.Seen().Gaps
		inner := func(g Gap) bool { return strings.Contains(g.What, "gradients of inner nodes") }
		hook := func(g Gap) bool { return strings.Contains(g.What, givenByHook) && g.N == 1 && g.First == tc.gap }
		if slices.ContainsFunc(gaps, inner) || slices.ContainsFunc(gaps, hook) != (tc.gap != "") {
			t.Errorf("%s: gaps %+v, want %q", tc.name, gaps, tc.gap)
		}
	}
}

// TestColumnsCopied: a table whose columns a call wrote through a view with gaps in memory holds what was left there.
func TestColumnsCopied(t *testing.T) {
	tr := analyse(t, unpack(t, "columns-copied"))
	if f, s := tr.First(), tr.Seen(); f != nil || !s.All() {
		t.Errorf("finding %+v, gaps %+v", f, s.Gaps)
	}
}

// TestColumnsReduced: a function whose backward pass adds up a gradient over the ranks has another one than the
// derivative of its calls on one rank.
func TestColumnsReduced(t *testing.T) {
	tr := analyse(t, unpack(t, "columns-reduced"))
	if f := tr.First(); f != nil {
		t.Errorf("got %s of %s: %s", f.Target, f.Call, f.Reason)
	}
}

// TestReceivedTwice: a message that was received where a call had saved its argument is named at its wrong gradients.
func TestReceivedTwice(t *testing.T) {
	f := analyse(t, unpack(t, "received-twice")).First()
	if f == nil || !strings.Contains(f.Reason, "torch.distributed.recv/") ||
		!strings.Contains(f.Reason, "wrote other elements where input[0] lies, and the gradient follows from these") {
		t.Errorf("got %+v", f)
	}
}

// TestStateOverwritten: the state of an optimizer that is not what the step before left is changed, also where the
// program has another name of its memory (x.data). A name, and numpy(), write nothing; a recorded call by it may.
// What is compared is what the step before left, and it is said to be elsewhere only if all of it is.
func TestStateOverwritten(t *testing.T) {
	for _, tc := range []struct{ name, want, wrote string }{
		{"state-aliased", "input[14] of torch.optim.adam.adam/76: it is not what the step before left in input[14] " +
			"of torch.optim.adam.adam/6, and no recorded call wrote there in between", ""},
		{"state-half", "input[20] of torch.optim.adam.adam/77: 128 of 256 elements changed, the first at [8, 0], the " +
			"last at [15, 15]: from 6.11342e-08 to 0.985147 since input[20] of torch.optim.adam.adam/6, and no recorded call " +
			"wrote there; they are those of output[0] of torch.Tensor.numpy/70", ""},
		{"state-written-aliased", "input[14] of torch.optim.adam.adam/77: 256 of 256 elements changed, the first at " +
			"[0, 0], the last at [15, 15]: from -0.000100695 to 0 since output[0] of torch.Tensor.mul_/69, and no " +
			"recorded call wrote there", ""},
		{"state-alias-read", "", ""},
		{"state-written", "", "/tmp/model-s1/train.py:26 2.weight"},
		{"state-new", "", "/tmp/model-s1/train.py:32 2.weight"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, wrote := "", ""
			tr := analyse(t, unpack(t, tc.name))
			for _, f := range tr.Findings {
				got += fmt.Sprintf("%s of %s: %s", f.Target, f.Call, f.Reason)
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			for _, w := range tr.StateWrites() {
				wrote += w.Location + " " + strings.Join(w.Parameters, " ")
			}
			if wrote != tc.wrote {
				t.Errorf("state is written at %q, want %q", wrote, tc.wrote)
			}
		})
	}
}

// TestStateReloaded: the state of an optimizer that load_state_dict exchanged lies where a step had something else, and
// is no state that changed.
func TestStateReloaded(t *testing.T) {
	if f := analyse(t, unpack(t, "state-reloaded")).First(); f != nil {
		t.Errorf("got %s of %s: %s", f.Target, f.Call, f.Reason)
	}
}
