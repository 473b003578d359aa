package cli

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress counts captures on standard error while a command runs. It shows
// nothing unless standard error is a terminal.
type progress struct {
	bar      *progressbar.ProgressBar
	findings int
}

// newProgress starts counting; name is what is being done.
func (a *app) newProgress(name string) *progress {
	if _, tty := terminal(a.Err); !tty || a.quiet {
		return &progress{}
	}
	return &progress{bar: progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(a.Err),
		progressbar.OptionSetDescription(name),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("captures"),
		progressbar.OptionThrottle(200*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSpinnerType(14),
	)}
}

// add counts one capture.
func (p *progress) add(finding bool) {
	if p.bar == nil {
		return
	}
	if finding {
		p.findings++
		p.bar.Describe(fmt.Sprintf("%d findings", p.findings))
	}
	_ = p.bar.Add(1) // a terminal that cannot be written to is no reason to stop
}

// pause clears the line so that something else can be printed.
func (p *progress) pause() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
