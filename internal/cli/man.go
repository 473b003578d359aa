package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManCmd writes man pages, for make man and packagers.
func newManCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages of all commands",
		Example: "  optool man man1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return failed(err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // the same pages from the same source
			_, committed, _ := stamp(buildInfo())
			date, err := time.Parse(time.RFC3339, committed)
			if err != nil { // the build does not know its commit
				date = time.Unix(0, 0).UTC()
			}
			page := &doc.GenManHeader{Section: "1", Source: "optool", Manual: "optool", Date: &date}
			if err := doc.GenManTree(root, page, args[0]); err != nil {
				return failed(err)
			}
			_, err = fmt.Fprintf(a.Out, "man pages are in %s\n", args[0])
			return failed(err)
		},
	}
}
