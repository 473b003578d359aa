package cli_test

import (
	"strings"
	"testing"
)

// TestHelpOfNoReader: the help of a command that reads no recording names no flags about reading; the command takes
// them all the same.
func TestHelpOfNoReader(t *testing.T) {
	for args, want := range map[string]bool{"hook --help": false, "version --help": false, "slurm --help-all": false,
		"replay --help-all": true} {
		got := run(t, 0, strings.Fields(args)...)
		for _, flag := range []string{"--jobs ", "--read ", "--blas "} {
			if strings.Contains(got, flag) != want {
				t.Errorf("%s: %s: %v", args, flag, !want)
			}
		}
	}
	if got := run(t, 0, "version", "--jobs", "2"); !strings.Contains(got, "optool") {
		t.Errorf("version --jobs 2: %s", got)
	}
}
