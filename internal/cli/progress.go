package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
)

// A progress says on standard error how far a command is: on a terminal with a bar, in
// the log of a build (the environment variable CI is set) with a line every ten seconds,
// elsewhere not at all. Its methods may be called from several goroutines.
type progress struct {
	name, noun string
	every      time.Duration
	started    time.Time
	end        func()

	mu          sync.Mutex
	w           io.Writer
	bar         *progressbar.ProgressBar // nil for lines
	items, of   int                      // done and in all, 0 if not known
	bytes, ofBy int64                    // the same of bytes; 0 where they do not count
	findings    int
	current     string // what is worked on
}

// logEvery is how often the log of a build is told.
const logEvery = 10 * time.Second

// newProgress starts counting: name is what is being done, noun what is counted.
func (a *app) newProgress(name, noun string) *progress {
	p := &progress{name: name, noun: noun, started: time.Now(), w: a.Err, end: func() {}}
	_, tty := terminal(a.Err)
	switch ci := os.Getenv("CI"); {
	case a.quiet:
		return p
	case tty:
		p.every = 200 * time.Millisecond
		p.bar = progressbar.NewOptions64(-1,
			progressbar.OptionSetWriter(a.Err),
			progressbar.OptionSetDescription(name),
			progressbar.OptionSetWidth(20),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionUseANSICodes(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSpinnerType(14),
		)
	case ci != "" && ci != "false":
		p.every = logEvery
	default:
		return p
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(p.every)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				p.show()
			}
		}
	}()
	p.end = sync.OnceFunc(func() {
		close(stop)
		<-stopped
		if p.bar != nil {
			_ = p.bar.Finish() // a terminal that cannot be written to is no reason to stop
		}
	})
	return p
}

// shown reports whether anybody sees it.
func (p *progress) shown() bool { return p.every > 0 }

// drawn reports whether it is a bar, which says what lines about things that went well
// would say.
func (p *progress) drawn() bool { return p.bar != nil }

// expect says how much there is in all. Bytes, unless they are 0, are what time is
// estimated by.
func (p *progress) expect(items int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of, p.ofBy = items, bytes
}

// index counts what lies below the paths, in the background, if anybody sees it.
func (p *progress) index(ctx context.Context, paths []string) {
	if !p.shown() {
		return
	}
	go func() {
		n, bytes := 0, int64(0)
		for e, err := range capture.Scan(ctx, paths, capture.Options{}) {
			if err == nil {
				n++
				bytes += e.Bytes()
			}
		}
		p.expect(n, bytes)
	}()
}

// begin says what is worked on.
func (p *progress) begin(what string) {
	if !p.shown() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = what
}

// add counts something of this many bytes.
func (p *progress) add(finding bool, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items++
	p.bytes += bytes
	if finding {
		p.findings++
	}
}

// print prints something else while nothing is shown.
func (p *progress) print(f func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	return f()
}

// warn prints a warning while nothing is shown.
func (p *progress) warn(a *app, err error) {
	_ = p.print(func() error {
		a.warn("%v", err)
		return nil
	})
}

// say prints a line about what is done while nothing is shown.
func (p *progress) say(a *app, line string) {
	_ = p.print(func() error {
		a.say(line)
		return nil
	})
}

// show draws the bar, or prints a line.
func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		fmt.Fprintln(p.w, "optool: "+p.line())
		return
	}
	text := fmt.Sprintf("%s %d", p.name, p.items)
	if p.of > 0 {
		text += fmt.Sprintf("/%d", p.of)
	}
	if p.findings > 0 {
		text += ", " + reports.Count(p.findings, "finding")
	}
	if p.current != "" {
		text += ", " + reports.OneLine(p.current)
	}
	p.bar.Describe(text)
	done, all := int64(p.items), int64(p.of)
	if p.ofBy > 0 {
		done, all = p.bytes, p.ofBy
	}
	if all > 0 && p.bar.GetMax64() != max(all, done) {
		p.bar.ChangeMax64(max(all, done))
	}
	_ = p.bar.Set64(done)
}

// line is how far it is, for a log.
func (p *progress) line() string {
	s := fmt.Sprintf("%s: %s", p.name, reports.Count(p.items, p.noun))
	if p.of > 0 {
		s = fmt.Sprintf("%s: %d of %s", p.name, p.items, reports.Count(p.of, p.noun))
	}
	part := 0.0
	switch {
	case p.ofBy > 0:
		part = float64(p.bytes) / float64(p.ofBy)
		s += fmt.Sprintf(", %s of %s", reports.Bytes(p.bytes), reports.Bytes(p.ofBy))
	case p.of > 0:
		part = float64(p.items) / float64(p.of)
	}
	if p.findings > 0 {
		s += ", " + reports.Count(p.findings, "finding")
	}
	if part > 0 && part < 1 {
		left := time.Duration(float64(time.Since(p.started)) * (1 - part) / part)
		s += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	if p.current != "" {
		s += ", at " + reports.OneLine(p.current)
	}
	return s
}
