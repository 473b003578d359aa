package cli

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"
)

// A clock is the flags that limit what a command that runs no operator does for one call or file: reading
// values takes time and memory too, and a file may declare any number of elements.
type clock struct {
	timeout time.Duration
	memory  int64
	*limits
}

func (c *clock) addFlags(cmd *cobra.Command, of string) {
	addTimeoutFlag(cmd, &c.timeout, of, referenceTimeout.String())
	addMemoryFlag(cmd, &c.memory)
}

// start makes the limits that the flags ask for.
func (c *clock) start() { c.limits = limitsOf(c.memory, cmp.Or(c.timeout, referenceTimeout)) }
