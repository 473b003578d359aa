package ontorch

import (
	"fmt"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge/torchbridge"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

var verdicts = map[torchbridge.Status]verdict.Verdict{
	torchbridge.Unsupported: verdict.Unsupported, torchbridge.Failed: verdict.Error, torchbridge.Crashed: verdict.Crash,
	torchbridge.Exited: verdict.Crash, torchbridge.Missing: verdict.Fail, torchbridge.TimedOut: verdict.Timeout,
}

// statusOf is what the end of a pass means.
func statusOf(p torchbridge.Pass) replay.DeviceStatus {
	return replay.DeviceStatus{Verdict: verdicts[p.Status], Reason: p.Reason,
		Refused: p.Status == torchbridge.Unsupported && !p.Absent, Absent: p.Absent}
}

// missing are sentences about results that are not there, or are too many.
func missing(got, want []*tensor.Tensor) (faults []string) {
	if len(got) != len(want) && len(want) > 0 {
		faults = append(faults, fmt.Sprintf("it gives %d results, want %d", len(got), len(want)))
	}
	for i, w := range want {
		if w != nil && i < len(got) && got[i] == nil {
			faults = append(faults, fmt.Sprintf("result %d is None, want %s", i, w.Meta()))
		}
	}
	return faults
}
