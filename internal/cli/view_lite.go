//go:build lite

package cli

import "github.com/spf13/cobra"

func newViewCmd(*app) *cobra.Command {
	return &cobra.Command{
		Use:   "view RUN|PATH...",
		Short: "Show the results of a run, and tensors, in a browser (not in this optool)",
		Long:  "view " + notBuilt + ". Write a page with --html FILE instead.",
		Args:  somePaths,
		RunE: func(*cobra.Command, []string) error {
			return usageError("view %s; write a page with --html FILE instead", notBuilt)
		},
	}
}
