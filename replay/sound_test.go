package replay_test

import (
	"path/filepath"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
)

// TestSound replays recordings of sound programs, which fixtures/sound/record.py made: nothing fails, and nearly
// all values are judged. bench/sound.py does the same with many programs.
func TestSound(t *testing.T) {
	dir := t.TempDir()
	unpack(t, "../fixtures/sound/captures.tar.gz", dir)
	for name, least := range map[string]map[replay.Phase]int{
		"lm": {replay.Forward: 214, replay.Backward: 90, replay.Input: 85},
		// The weights' gradients of the second pass belong to no result's gradient.
		"penalty": {replay.Forward: 9, replay.Backward: 9},
		"cnn":     {replay.Forward: 48, replay.Backward: 18, replay.Input: 37},
	} {
		judged, all := map[replay.Phase]int{}, map[replay.Phase]int{}
		for _, e := range entries(t, filepath.Join(dir, name)) {
			for _, r := range replay.Run(e, options(t)).Results {
				all[r.Phase]++
				switch r.Verdict {
				case verdict.Pass, verdict.Warn:
					judged[r.Phase]++
				case verdict.Mistrusted, verdict.Skipped:
				default:
					t.Errorf("%s: %s %s: %s", e.Rel, r.Target, r.Verdict, r.Reason)
				}
			}
		}
		for phase, n := range least {
			if judged[phase] < n {
				t.Errorf("%s, %s: %d of %d values are judged, want %d", name, phase, judged[phase], all[phase], n)
			}
		}
	}
}
