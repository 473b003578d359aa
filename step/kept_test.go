package step

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// TestFindUnkept: running statistics that are not what the step before left are changed where those beside them are
// kept; if most are not, something that was not recorded wrote them. A tensor with a name that torch has not written
// since needs no others. Memory that was made for a call is free again.
func TestFindUnkept(t *testing.T) {
	for _, tc := range []struct {
		name      string
		kept, not int
		temporary bool
		named     string // the name of the last tensor
		writes    int    // that torch counted in between
		ranks     bool   // the process exchanges values with others
		want      bool
	}{
		{"one of four", 3, 1, false, "", 0, false, true},
		{"one of two", 1, 1, false, "", 0, false, false},
		{"one of two, by its name", 1, 1, false, "weight", 0, false, true},
		{"one of two, written", 1, 1, false, "weight", 1, false, false},
		{"one of two, by its name, of ranks", 1, 1, false, "mean", 0, true, false}, // DDP broadcasts it
		{"all", 0, 4, false, "", 0, false, false},
		{"half", 4, 4, false, "", 0, false, false},
		{"free memory", 3, 1, true, "", 0, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := []*Step{{Number: 0}, {Number: 1}}
			var last *Value
			p := &Process{Steps: s, exchanges: tc.ranks}
			add := func(step *Step, op string, v *Value) *Value {
				v.DType, v.Shape, v.Stride, v.item = tensor.Float32, []int{8}, []int{1}, -1
				v.Call = &Call{Op: op, Order: len(p.Calls), Step: step, Process: p}
				p.Calls = append(p.Calls, v.Call)
				if v.Kind == outputKind {
					v.Call.Outputs = []*Value{v}
				} else {
					v.Call.Inputs = []*Value{v}
				}
				return v
			}
			for i := range tc.kept + tc.not {
				at := uint64(64 * (i + 1))
				w := &Value{Kind: inputKind, Address: at, after: &fingerprint{}, version: 4, named: tc.named}
				if tc.temporary {
					made := add(s[0], "torch.empty", &Value{Kind: outputKind, Address: at})
					w.From = Link{How: ByContent, Value: made}
				}
				w = add(s[0], "torch.nn.functional.batch_norm", w)
				last = &Value{Kind: inputKind, Address: at, latest: w, version: 4 + tc.writes, named: tc.named}
				last.From = Link{How: ByStorage, Value: w, written: true}
				if i >= tc.kept {
					last.From = Link{How: IsOutside}
				}
				add(s[1], "torch.nn.functional.batch_norm", last)
			}
			p.findUnkept()
			if got := last.From.How == IsChanged; got != tc.want {
				t.Errorf("changed: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestRecordedTwice: two recordings of one process, whose calls have the same numbers, are not mixed.
func TestRecordedTwice(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"grad-zeros", "rng"} {
		found, err := filepath.Glob(filepath.Join(unpack(t, name), "rank0", "*"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		to := filepath.Join(dir, "rank0", "7-2026-01-01-00-00-0"+string(rune('0'+len(name)%10)))
		if err := os.CopyFS(to, os.DirFS(found[0])); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(analyse(t, dir).Processes); n != 2 {
		t.Errorf("%d processes, want 2", n)
	}
}

// TestKeeps: memory that nothing wrote since it was allocated keeps nothing, nor does memory of which only views are
// taken for a collective to gather into.
func TestKeeps(t *testing.T) {
	for _, tc := range []struct {
		name, random, next string
		want               bool
	}{
		{"read", "", "torch.add", true},
		{"uninitialised", opdef.Uninitialised, "torch.add", false},
		{"gathered into", "", "torch.distributed.all_gather", false},
		{"added up", "", "torch.distributed.all_reduce", true},
	} {
		p := &Process{Steps: []*Step{{}}}
		call := func(op string, in, out []*Value) *Call {
			c := &Call{Op: op, Order: len(p.Calls), Step: p.Steps[0], Process: p, Inputs: in, Outputs: out}
			for _, v := range slices.Concat(in, out) {
				v.DType, v.Shape, v.Stride, v.Call = tensor.Float32, []int{8}, []int{1}, c
			}
			p.Calls = append(p.Calls, c)
			return c
		}
		at := func(kind capture.Kind) *Value { return &Value{Kind: kind, Address: 64, item: -1} }
		was, v := at(outputKind), at(inputKind)
		call("torch.empty", nil, []*Value{was}).random = tc.random
		call("torch.chunk", []*Value{v}, []*Value{at(outputKind)})
		call(tc.next, []*Value{at(inputKind), {Kind: inputKind, Address: 256, item: -1}}, nil)
		if got := v.keeps(was); got != tc.want {
			t.Errorf("%s: keeps %t", tc.name, got)
		}
	}
}
