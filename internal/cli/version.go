package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/devicebridge"
)

func newVersionCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the commit it was built from",
		Example: "  optool version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.Out, versionLine(), revisionLine(buildInfo(), version()), featuresLine())
			return failed(err)
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("optool %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// featuresLine says what this build has.
func featuresLine() string {
	has := func(name string, yes bool) string {
		if yes {
			return name
		}
		return "no " + name
	}
	cgo := false
	for _, s := range buildInfo().Settings {
		cgo = cgo || s.Key == "CGO_ENABLED" && s.Value == "1"
	}
	return fmt.Sprintf("features: %s, %s, %s\n", has("simd", strings.Contains(runtime.Version(), "simd")),
		has("cgo", cgo), has("devices", devicebridge.Built()))
}

// release is the version that make release was given, "" in other builds.
var release string

// version is what runs and reports are stamped with.
func version() string { return cmp.Or(release, versionOf(buildInfo())) }

func buildInfo() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return &debug.BuildInfo{}
	}
	return info
}

// unversioned is the version of a build that knows neither release nor commit.
const unversioned = "unversioned"

// versionOf is the version of a release, or what Go makes of the commit that a
// build was made from (v0.0.0-20261122075412-138bf21a0c1d+dirty). A build that
// knows neither says so.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, _, modified := stamp(info)
	switch {
	case revision == "":
		return unversioned
	case modified:
		return revision + "+dirty"
	}
	return revision
}

// revisionLine is the commit in full; a release that was installed as a module
// has none, and needs none.
func revisionLine(info *debug.BuildInfo, version string) string {
	revision, time, modified := stamp(info)
	switch {
	case revision == "" && version == unversioned:
		return "built without a record of the revision; go build -buildvcs=true makes one\n"
	case revision == "":
		return ""
	}
	line := fmt.Sprintf("revision %s of %s", revision, cmp.Or(time, "an unknown time"))
	if modified {
		line += ", with changes that are not committed"
	}
	return line + "\n"
}

// stamp is what the build recorded of version control.
func stamp(info *debug.BuildInfo) (revision, time string, modified bool) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = strings.TrimSpace(s.Value)
		case "vcs.time":
			time = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return revision, time, modified
}
