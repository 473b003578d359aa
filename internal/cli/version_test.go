package cli

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	const rev = "138bf21a0c1d138bf21a0c1d138bf21a0c1d1234"
	vcs := func(settings ...string) (out []debug.BuildSetting) {
		for i := 0; i < len(settings); i += 2 {
			out = append(out, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return out
	}
	for _, tc := range []struct {
		name, module   string
		settings       []debug.BuildSetting
		version, about string
	}{
		{"an installed release", "v1.2.0", nil, "v1.2.0", ""},
		{"without version control", "(devel)", vcs("GOOS", "linux"), "unversioned",
			"built without a record of the revision; go build -buildvcs=true makes one\n"},
		{"a commit", "v0.0.0-20261122075412-138bf21a0c1d",
			vcs("vcs.revision", rev, "vcs.time", "2026-11-22T07:54:12Z", "vcs.modified", "false"),
			"v0.0.0-20261122075412-138bf21a0c1d", "revision " + rev + " of 2026-11-22T07:54:12Z\n"},
		{"a changed tree", "(devel)", vcs("vcs.revision", rev, "vcs.time", "2026-11-22T07:54:12Z", "vcs.modified", "true"),
			rev + "+dirty",
			"revision " + rev + " of 2026-11-22T07:54:12Z, with changes that are not committed\n"},
		{"a commit without a time", "", vcs("vcs.revision", rev), rev, "revision " + rev + " of an unknown time\n"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: tc.module}, Settings: tc.settings}
		if got := versionOf(info); got != tc.version {
			t.Errorf("%s: version %q, want %q", tc.name, got, tc.version)
		}
		if got := revisionLine(info, versionOf(info)); got != tc.about {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.about)
		}
	}
}
