package cli

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/replay/ondevice"
	"github.com/optool/optool/replay/timed"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

// A timer is a run of time: it measures tasks and reports them.
type timer struct {
	*app
	o         *timeOptions
	measuring timed.Timer
	library   *ondevice.Device // that is measured; nil: none is
	limits    *limits
	check     *accuracy // nil: results are not looked at
	peaks     timed.Peaks
	json      *jsonOutput
	csv       *timeCSV
	table     *timeTable
	tally     tally
	settings  reports.Settings
	digest    string // of the library that is measured, if it is one
	left      leftOut
	done      []*reports.Timing
	replaced  []*capture.Entry // measured calls of functions that the program put in the place of torch's
	// Of --against-device: what was measured of it, how what is done compares with it, and the counts of that.
	rival    []*reports.Timing
	changes  []reports.TimingChange
	compared *ChangeCounts
}

type timeOptions struct {
	selection
	deviceFlags
	runTimes    int
	forwardOnly bool
	sync        bool
	records     outputs
	out         string
	cache       string
	maxTime     time.Duration
	budget      time.Duration
	interleave  bool
	resolution  float64
	threshold   float64
	each        bool
	byShape     bool
	sortBy      string
	rowLimit    int
	bench       string
	trace       string
	plot        string
	histogram   bool
	calibrate   bool
	bandwidth   float64
	flops       float64
	seed        uint64
	accCheck    bool
	tolerances  toleranceFile
}

func (o *timeOptions) check(paths []string) error {
	switch {
	case o.runTimes < 0:
		return usageError("--run_times: want a number of runs, got %d", o.runTimes)
	case o.maxTime <= 0:
		return usageError("--max-time: want more than 0, got %v", o.maxTime)
	case o.resolution <= 0:
		return usageError("--resolution: want more than 0, got %v", o.resolution)
	case o.budget < 0:
		return usageError("--budget: want more than 0, got %v", o.budget)
	case !slices.Contains(reports.AverageColumns, o.sortBy):
		return usageError("--sort_by: want one of %s, got %q", strings.Join(reports.AverageColumns, ", "), o.sortBy)
	case o.rowLimit < 0:
		return usageError("--row_limit: want a number of rows, got %d", o.rowLimit)
	case o.bandwidth < 0 || o.flops < 0:
		return usageError("--peak-bandwidth, --peak-flops: want more than 0")
	case o.plot != "" && !strings.HasSuffix(o.plot, ".svg"):
		return usageError("--plot: want a name ending in .svg, got %q", o.plot)
	case o.threshold < 0:
		return usageError("--threshold: want at least 0, got %v", o.threshold)
	case o.threshold > 0 && o.against == "":
		return usageError("--threshold needs --against-device")
	case o.tolerances != "" && !o.accCheck:
		return usageError("--tolerances needs --acc_check")
	case len(paths) == 0 && !o.calibrate:
		return usageError("time: want at least one PATH")
	}
	if !slices.Contains([]string{"both", "cold", "hot"}, o.cache) {
		return usageError("--cache: want cold, hot or both, got %q", o.cache)
	}
	return o.deviceFlags.check()
}

// caches are the states of the caches to measure with.
func (o *timeOptions) caches() []timing.Cache {
	if o.cache == "both" {
		return []timing.Cache{timing.Cold, timing.Hot}
	}
	return []timing.Cache{timing.Cache(o.cache)}
}

// A timeCSV is op_tools' file of times, created with its first row.
type timeCSV struct {
	dir   string
	block int // see selection.csvBlock
	path  string
	file  *os.File
	csv   *reports.CSV
	ids   map[string]int // runs so far, by op
}

// add writes the runs of a task; op_tools numbers the calls of each op.
func (c *timeCSV) add(t *timer, k *timed.Task) error {
	if c.csv == nil {
		f, err := reports.CreateTimeCSV(c.dir, time.Now())
		if err != nil {
			return err
		}
		c.file, c.path, c.csv = f, f.Name(), reports.NewTimeCSV(f, c.block)
	}
	rows, err := t.timeRows(k)
	if err != nil {
		return err
	}
	for _, r := range rows {
		c.ids[k.Op]++
		r.ForwardID = c.ids[k.Op]
		if err := c.csv.Time(r); err != nil {
			return err
		}
	}
	return nil
}

func (c *timeCSV) close() {
	if c.file != nil {
		c.file.Close()
	}
}
