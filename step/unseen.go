package step

import (
	"fmt"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// findUnseen looks among the wrong results for those that a changed value makes right: of
// calls that read it after it had changed, but whose arguments the recorder had copied
// before. They are consequences of the change, and the first of them is when it shows.
func (f *Finding) findUnseen(all []*Finding, opt Options) {
	v := f.Call.Value(f.Target)
	for _, g := range all {
		c := g.Call
		if g.Rule != verdict.Wrong || g.backward || c.Process != f.Call.Process || c.Order >= f.Call.Order ||
			slices.Contains(f.unseen, c) {
			continue
		}
		for _, u := range c.Inputs {
			was := u == f.From || u.From.Value == f.From || u.From.first == f.From
			if was && u.From.How != IsChanged && v.overlays(u) && c.givenBy(u, v, opt) {
				f.unseen = append(f.unseen, c)
				break
			}
		}
	}
	if len(f.unseen) == 0 {
		return
	}
	f.Reason += fmt.Sprintf("; %s had computed with it, though its recorded argument is what was there before",
		f.unseen[0])
	if n := len(f.unseen) - 1; n > 0 {
		f.Reason += fmt.Sprintf(", and so had %s", reports.Count(n, "other call"))
	}
}

// givenBy reports whether the recorded results of c are those that it gives with the
// elements of v in place of those of its argument u.
func (c *Call) givenBy(u, v *Value, opt Options) (given bool) {
	err := opt.within(c, "", func(opt Options) error {
		rec, err := c.Entry.Load(capture.LoadOptions{Read: opt.Read, Only: capture.Of(capture.Input, capture.Output,
			capture.After)})
		if err != nil {
			rec.Close()
			return err
		}
		defer rec.Close()
		now, done, err := v.load(opt)
		if err != nil {
			return err
		}
		defer done()
		ls, err := rec.Leaves(capture.Input)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(ls, func(l capture.Leaf) bool { return l.Number == u.leaf })
		if i < 0 {
			return fmt.Errorf("%s: %s is not there any more", c.Entry.Rel, u.Target)
		}
		was, t := ls[i].Tensor, *now.Dense().Reshape(u.Shape...)
		t.RequiresGrad, t.Parameter = was.RequiresGrad, was.Parameter
		rec.Args, rec.Kwargs = replaced(rec, map[*tensor.Tensor]*tensor.Tensor{was: &t})
		forward := opt.Options
		forward.ForwardOnly = true
		results := slices.DeleteFunc(replay.Of(rec, forward).Compare().Results, func(r replay.Result) bool {
			return r.Phase == replay.Input && r.Target == u.Target &&
				!slices.Contains(c.failing(replay.Input), u.Target)
		}) // what it left of the other value was not recorded
		failed := func(r replay.Result) bool { return r.Verdict == verdict.Fail }
		given = c.mends(results, replay.Forward, replay.Input) && !slices.ContainsFunc(results, failed)
		return nil
	})
	return given && err == nil
}
