// Optool reads operator calls recorded by ditorch op_tools and checks them.
package main

import (
	"os"

	"github.com/optool/optool/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], cli.System())) }
