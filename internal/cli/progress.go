package cli

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress shows on a terminal's standard error how many captures are done;
// elsewhere, and with --quiet, it shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress starts a progress of unknown length.
func (a *app) newProgress(what string) *progress {
	width, ok := terminal(a.Err)
	if !ok || a.quiet {
		return &progress{}
	}
	return &progress{progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(a.Err),
		progressbar.OptionSetWidth(min(40, width/3)),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSpinnerType(14),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

func (p *progress) add() {
	if p.bar != nil {
		p.bar.Add(1)
	}
}

// pause removes the bar so that other output can be printed.
func (p *progress) pause() {
	if p.bar != nil {
		p.bar.Clear()
	}
}

func (p *progress) done() {
	if p.bar != nil {
		p.bar.Finish()
	}
}
