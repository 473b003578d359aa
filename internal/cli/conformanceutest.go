package cli

import (
	"context"
	"strings"
	"time"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/reports"
)

// testRuntime is the mode utest.
func (o *conformanceOptions) testRuntime(ctx context.Context, a *app) error {
	if o.device == noDevice {
		return usageError("--mode utest: want a device, got --device none")
	}
	dev, err := o.open(ctx, a)
	if err != nil {
		return err
	}
	defer dev.Close()
	j, err := a.openRecords(o.records, a.run(o.device))
	if err != nil {
		return err
	}
	defer j.close()
	start := time.Now()
	rep := newConformanceReport(o)
	rep.coverage = newFunctionCounts(dev)
	source, repro := "device", o.deviceRepro("utest")
	bar := a.newProgress("utest", "test")
	bar.expect(len(conformance.RuntimeTests()), 0)
	for _, t := range conformance.RuntimeTests() {
		if ctx.Err() != nil {
			break
		}
		v, reason := t.Run(ctx, rep.coverage, dev.Info())
		group, _, _ := strings.Cut(t.Name, "::")
		r := &reports.Result{Capture: t.Name, Op: group, Phase: "forward", Verdict: v, Reason: reason,
			Source: &source, Repro: &repro}
		if err := j.result(r); err != nil {
			return failed(err)
		}
		rep.count(group, nil, []*reports.Result{r}, false)
		bar.add(r.Finding(), 0)
		switch {
		case v == verdict.Pass && !a.quiet && !bar.drawn():
			o.log(a, bar, "INFO", "utest %s passed", t.Name)
		case v == verdict.Warn || v == verdict.Unsupported:
			o.log(a, bar, "WARNING", "utest %s: %s", t.Name, reason)
		case v != verdict.Pass:
			o.log(a, bar, "ERROR", "utest %s failed: %s", t.Name, reason)
		}
	}
	bar.end()
	rep.Interrupted = ctx.Err() != nil
	return rep.finish(a, j, start)
}

// deviceRepro is the command that does the same with the same device.
func (o *conformanceOptions) deviceRepro(mode string) string {
	s := program() + " conformance --mode " + mode + " --device " + quoteDevice(o.device)
	if o.adaptor != "" {
		s += " --adaptor " + quotePath(o.adaptor)
	}
	return s
}
