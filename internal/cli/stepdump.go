package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/metric"
	"github.com/optool/optool/step/view"
)

// A dumpSummary is the last record of a comparison of files of log-probabilities.
type dumpSummary struct {
	Kind   string             `json:"kind"` // "summary"
	Tokens *metric.PairRecord `json:"tokens"`
	Left   int                `json:"left,omitempty"` // samples that one side does not have
}

// openDump reads a file of log-probabilities; nil if the path is no such file.
func openDump(path string, read pthformat.ReadMode) *metric.Dump {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := pthformat.Open(path, pthformat.Options{Read: read})
	if err != nil {
		return nil // reading it as a capture says why
	}
	defer f.Close()
	return metric.ParseDump(f.Root)
}

// runDump compares the log-probabilities of a rollout with those of a training step: those of --against, or of the
// same file.
func (o *stepOptions) runDump(a *app, d *metric.Dump) error {
	other := d
	if o.against != "" {
		if other = openDump(o.against, o.read); other == nil {
			return usageError("%s is no file of log-probabilities. Give a recording first: step RECORDING --against FILE",
				o.against)
		}
	}
	if !o.none() || o.of+o.html+o.graph+o.dot+o.mermaid+o.layout != "" || len(o.exact)+len(o.in) > 0 {
		return usageError("a file of log-probabilities holds no calls: of the flags of step, it takes only --against and " +
			"--json")
	}
	p, left := metric.NewDumpPair(d, other)
	if p == nil {
		return failed(fmt.Errorf("no sample has log-probabilities of both the rollout and the training step"))
	}
	j, err := a.openRecords(o.records, a.run(noDevice))
	if err != nil {
		return err
	}
	defer j.close()
	if j.lines != nil {
		for _, t := range p.Tokens {
			if err := j.write(t.Record()); err != nil {
				return failed(err)
			}
		}
		if err := j.write(&dumpSummary{"summary", p.Record(), left}); err != nil {
			return failed(err)
		}
	}
	if err := view.Tokens(j.text(), p, a.style()); err != nil {
		return failed(err)
	}
	if left > 0 {
		a.warn("%s left out: one of the sides has no log-probability for each token of the response",
			reports.Count(left, "sample"))
	}
	return failed(j.close())
}

// againstDump compares the recorded run with a file of log-probabilities.
func (o *stepOptions) againstDump(cmd *cobra.Command, t *step.Trace, d *metric.Dump, opt step.Options) (err error) {
	if o.pair, err = metric.NewPairWithDump(cmd.Context(), t, d, o.of, opt); err != nil {
		return failed(err)
	}
	if o.pair == nil {
		return failed(fmt.Errorf("%s and the recorded run have no tokens in common", o.against))
	}
	o.pair.Merge(t)
	return nil
}
