package devicecheck_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/custom"
	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/devicecheck"
)

// A namedDevice has functions of some names; those that are wrong give results that are off.
type namedDevice map[string]bool

func (d namedDevice) Run(c *replay.DeviceCall) *replay.DeviceRun {
	isWrong, has := d[c.Call.Name]
	if !has {
		return &replay.DeviceRun{Forward: replay.DeviceStatus{Verdict: verdict.Unsupported, Absent: true,
			Reason: "this Python has no " + c.Call.Name}}
	}
	run := exact{}.Run(c)
	run.Functions = []string{c.Call.Name}
	if isWrong {
		run = wrong(run)
	}
	return run
}

// declared are the operators of a file, in a registry with the built-in ones.
func declared(t *testing.T, text string) (*opdef.Registry, []*opdef.Entry) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "own.star")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	entries, err := custom.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	all, err := ops.Default().With(entries)
	if err != nil {
		t.Fatal(err)
	}
	return all, entries
}

// TestNames: of several names of an operator the first that the device has is judged, and of a file's operator each:
// they may be different kernels.
func TestNames(t *testing.T) {
	all, entries := declared(t, `op("a.star(Tensor x) -> Tensor", lambda x: 2 * x, names="a.star b.star c.star",
   cases=[dict(x=normal(3, 8))])`)
	for name, c := range map[string]struct {
		device namedDevice
		want   string // the function that is wrong
	}{
		"the second name": {namedDevice{"b.star": false}, ""},
		"and wrong":       {namedDevice{"b.star": true}, "b.star"},
		"one of two":      {namedDevice{"b.star": false, "c.star": true}, "c.star"},
		"no name":         {namedDevice{}, "not judged"},
	} {
		o := devicecheck.Suite(c.device, all).Judge(entries[0])
		got := ""
		switch {
		case len(o.Findings) > 0:
			got = o.Findings[0].Functions
		case o.Judged == 0:
			got = "not judged"
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q: %+v", name, got, c.want, o.Findings)
		}
	}
}

// TestReferenceRefuses: a case that the reference does not compute is not judged, and no finding about the device. So
// is a name that another operator of a file has taken over.
func TestReferenceRefuses(t *testing.T) {
	all, entries := declared(t, `
def at_most_one(x, n):
    if n > 1:
        refuse("n", "want at most 1")
    return x * n
op("a.scaled(Tensor x, int n) -> Tensor", at_most_one, cases=[dict(x=normal(3, 8), n=1), dict(x=normal(3, 8), n=2)])
op("torch.relu(Tensor self) -> Tensor", lambda self: relu(self), names="torch.relu", replaces=True)
`)
	device := namedDevice{"a.scaled": false, "torch.relu": false, "torch.nn.functional.relu": false}
	o := devicecheck.Suite(device, all).Judge(entries[0])
	refused := func(a *opcheck.Absence) bool { return strings.HasPrefix(a.Reason, opcheck.ReferenceRefuses) }
	if len(o.Findings) > 0 || o.Judged == 0 || !slices.ContainsFunc(o.Absent, refused) {
		t.Errorf("judged %d, findings %v, absent %+v", o.Judged, o.Findings, o.Absent)
	}
	for _, e := range ops.Default().Lookup("torch.relu") {
		if found := devicecheck.Suite(device, all).Entry(e); len(found) > 0 {
			t.Errorf("torch.relu is another operator, and %v", found)
		}
	}
}

// TestFirstArgument: "self" is a word of schemas: Python's functions take that argument by position.
func TestFirstArgument(t *testing.T) {
	for _, e := range ops.Default().Lookup("torch.index_add") {
		var asked []string
		devicecheck.Suite(recorder{&asked}, ops.Default()).Judge(e)
		if slices.Contains(asked, "self") || !slices.Contains(asked, "index") {
			t.Errorf("keywords %v", asked)
		}
	}
}

// A recorder keeps the keywords of calls.
type recorder struct{ keywords *[]string }

func (r recorder) Run(c *replay.DeviceCall) *replay.DeviceRun {
	_, kwargs := c.Call.Called()
	if kwargs != nil {
		for _, it := range kwargs.Items {
			if k, ok := it.Key.(string); ok {
				*r.keywords = append(*r.keywords, k)
			}
		}
	}
	return exact{}.Run(c)
}

// A refusing device is one of PyTorch whose functions refuse arguments with an error.
type refusing struct{}

func (refusing) Run(*replay.DeviceCall) *replay.DeviceRun {
	return &replay.DeviceRun{Functions: []string{"f"}, Forward: replay.DeviceStatus{Verdict: verdict.Error,
		Reason: "RuntimeError: want at least 2 dimensions"}}
}

// TestPlainRefuses: what PyTorch's own functions on the CPU refuse, too, is not judged; an error of the device alone is
// a finding, and so is one of a kernel of a file.
func TestPlainRefuses(t *testing.T) {
	all, entries := declared(t, `op("a.star(Tensor x) -> Tensor", lambda x: 2 * x, cases=[dict(x=normal(3, 8))])`)
	exp := ops.Default().Lookup("torch.exp")[0]
	for name, c := range map[string]struct {
		plain replay.Device
		of    *opdef.Entry
		found bool
	}{
		"both refuse":          {refusing{}, exp, false},
		"the device alone":     {exact{}, exp, true},
		"no device of PyTorch": {nil, exp, true},
		"a kernel of a file":   {refusing{}, entries[0], true},
	} {
		suite := devicecheck.Suite(refusing{}, all)
		suite.Runner.(*devicecheck.Runner).Plain = c.plain
		o := suite.Judge(c.of)
		refused := func(a *opcheck.Absence) bool { return strings.HasPrefix(a.Reason, "torch itself refuses") }
		if got := len(o.Findings) > 0; got != c.found || got == slices.ContainsFunc(o.Absent, refused) {
			t.Errorf("%s: findings %v, absent %+v", name, o.Findings, o.Absent)
		}
	}
}

// A picky device refuses calls that have this keyword, as functions of Python do.
type picky struct{ keyword string }

func (d picky) Run(c *replay.DeviceCall) *replay.DeviceRun {
	var keywords []string
	run := recorder{&keywords}.Run(c)
	if slices.Contains(keywords, d.keyword) {
		return &replay.DeviceRun{Functions: []string{"f"}, Forward: replay.DeviceStatus{Verdict: verdict.Error,
			Reason: "TypeError: f() got an unexpected keyword argument '" + d.keyword + "'"}}
	}
	return run
}

// TestWithout: an argument that a mapped function lacks is left out if PyTorch's own function of that name lacks it,
// too, and changes nothing. If PyTorch's has it, that is a finding.
func TestWithout(t *testing.T) {
	layerNorm, exp := ops.Default().Lookup("torch.layer_norm")[0], ops.Default().Lookup("torch.softmax")[0]
	for name, c := range map[string]struct {
		keyword string
		plain   replay.Device
		of      *opdef.Entry
		found   bool
	}{
		"both lack it":               {"cudnn_enable", picky{"cudnn_enable"}, layerNorm, false},
		"PyTorch's has it":           {"cudnn_enable", exact{}, layerNorm, true},
		"it changes the result":      {"dtype", picky{"dtype"}, exp, true},
		"an argument of no case":     {"approximate", picky{"approximate"}, layerNorm, false},
		"another device of no torch": {"cudnn_enable", nil, layerNorm, true},
	} {
		suite := devicecheck.Suite(picky{c.keyword}, ops.Default())
		suite.Forms = true
		suite.Runner.(*devicecheck.Runner).Plain = c.plain
		o := suite.Judge(c.of)
		if got := len(o.Findings) > 0; got != c.found || !c.found && o.Judged != o.Cases {
			t.Errorf("%s: %d of %d cases judged, findings %v", name, o.Judged, o.Cases, o.Findings)
		}
	}
}

// TestViewOfGaps: a layout that the reference refuses, as torch does, is no finding.
func TestViewOfGaps(t *testing.T) {
	for _, e := range ops.Default().Lookup("torch.Tensor.view") {
		if found := devicecheck.Suite(exact{}, ops.Default()).Entry(e); len(found) > 0 {
			t.Errorf("%s: %v", e.Op(), found[0])
		}
	}
}
